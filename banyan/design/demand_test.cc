#include "banyan/design/demand.h"

#include "banyan/testing/test.h"

namespace banyan::design {
namespace {

std::string error_of(const std::string& text) {
  return testing::error_of([&] { parse_demand_csv(text, "d.csv"); }, ErrorCode::invalid_input);
}

TEST(DemandCsv, ReadsPlainNumbers) {
  const DemandMatrix demand = parse_demand_csv("0,1,2\n3,0,4\r\n\n# the last one\n5,1.5e9,0\n", "d.csv");
  EXPECT_THAT(demand.names, ElementsAre("gpu0", "gpu1", "gpu2"));
  EXPECT_THAT(demand.amounts, ElementsAre(0, 1, 2, 3, 0, 4, 5, 1'500'000'000, 0));
  EXPECT_EQ(demand.unit, DemandMatrix::Unit::bytes);
  EXPECT_EQ(demand.at(2, 1), 1'500'000'000u);
  EXPECT_THAT(demand.row_totals(), ElementsAre(3, 7, 1'500'000'005));
  EXPECT_THAT(demand.column_totals(), ElementsAre(8, 1'500'000'001, 6));
}

TEST(DemandCsv, ReadsUnits) {
  EXPECT_THAT(parse_demand_csv("0, 64KiB\n1.5 GB, 0", "d.csv").amounts, ElementsAre(0, 65536, 1'500'000'000, 0));
  const DemandMatrix rates = parse_demand_csv("0,100Gb/s\n12 GB/s,0", "d.csv");
  EXPECT_EQ(rates.unit, DemandMatrix::Unit::bytes_per_second);
  EXPECT_THAT(rates.amounts, ElementsAre(0, 12'500'000'000, 12'000'000'000, 0));
  EXPECT_THAT(parse_demand_csv("0,100Gbps\n0,0", "d.csv").amounts, ElementsAre(0, 12'500'000'000, 0, 0));
}

// As people, spreadsheets and data frames write them.
TEST(DemandCsv, FindsNamesInTheFirstLineAndTheFirstColumn) {
  for (const char* text : {"a,b\n0,1\n2,0", ",a,b\na,0,1\nb,2,0", "from,a,b\na,0,1\nb,2,0", "a,0,1\nb,2,0",
                           "\xEF\xBB\xBF,a,b\na,0,1\nb,2,0", "a,b\na,0,1\nb,2,0"}) {
    const DemandMatrix demand = parse_demand_csv(text, "d.csv");
    EXPECT_THAT(demand.names, ElementsAre("a", "b")) << text;
    EXPECT_THAT(demand.amounts, ElementsAre(0, 1, 2, 0)) << text;
  }
  EXPECT_THAT(parse_demand_csv(",0,1\n0,0,7\n1,8,0\n", "d.csv").names, ElementsAre("0", "1"));
}

TEST(DemandCsv, NamesTheLineAndTheColumnOfWhatIsWrong) {
  EXPECT_EQ(error_of("0,1\n-2,0"),
            "d.csv line 2, column 1: '-2' is no amount; write bytes such as 4096 or 40GB, or rates such as 12GB/s");
  EXPECT_THAT(error_of("0,x\n2,0"), HasSubstr("d.csv line 1, column 2: "));
  EXPECT_THAT(error_of("0,1\n2,nan"), HasSubstr("line 2, column 2: 'nan' is no amount"));
  EXPECT_THAT(error_of("0,1\n2,1e999"), HasSubstr("line 2, column 2"));
  EXPECT_THAT(error_of("0,0.5\n2,0"), HasSubstr("line 1, column 2: '0.5' is no whole number of bytes"));
  EXPECT_THAT(error_of("0,1\n1e17,0"), HasSubstr("'1e17' is more than 9007199254740992"));
  EXPECT_THAT(error_of("0,1\n18446744073709551615.,0"), HasSubstr("is more than 9007199254740992"));
  EXPECT_THAT(error_of("0,18446744073709551615.\n1,0"), HasSubstr("is more than 9007199254740992"));
  EXPECT_THAT(error_of("0,\n2,0"), HasSubstr("line 1, column 2"));
  EXPECT_THAT(error_of("0,1GB\n2GB/s,0"), HasSubstr("line 2, column 1: '2GB/s' is a rate, unlike what comes before"));
  EXPECT_THAT(error_of("0,2GB/s\n7,0"), HasSubstr("line 2, column 1: '7' is in bytes, unlike what comes before"));
  EXPECT_THAT(error_of("a,b\n0,1\n2,3"), HasSubstr("line 3, column 2: b has '3' for itself; write 0"));
  EXPECT_THAT(error_of("0,1,2\n3,0,4"), HasSubstr("line 2: a demand has as many lines as columns, but there are 2 lines"
                                                  " and 3 columns"));
  EXPECT_THAT(error_of("0,1,2\n3,0\n4,5,0"), HasSubstr("line 2: has 2 amounts but the demand has 3 endpoints"));
  EXPECT_THAT(error_of("a,a\n0,1\n2,0"), HasSubstr("line 1, column 2: "));
  EXPECT_THAT(error_of(",a,b\na,0,1\nc,2,0"), HasSubstr("line 3, column 1: 'c' stands where the first line has 'b'"));
  EXPECT_THAT(error_of(",a,\na,0,1\nb,2,0"), HasSubstr("line 1, column 3: "));
  EXPECT_THAT(error_of(",a,b,c\na,0,1\nb,2,0"), HasSubstr("line 1: "));
  EXPECT_THAT(error_of("a,b"), HasSubstr("line 1: has names only"));
  EXPECT_THAT(error_of(""), HasSubstr("has no lines"));
  EXPECT_THAT(error_of("# nothing\n\n"), HasSubstr("has no lines"));
  EXPECT_THAT(error_of("0"), HasSubstr("2 to 256 endpoints, but this one has 1"));
}

TEST(Demands, GrowByTheUncertaintyWithinTheirTotals) {
  const DemandSet demands{.matrices = {parse_demand_csv("0,10,90\n20,0,0\n5,5,0", "d.csv")},
                          .uncertainty = Fraction(3, 10)};
  // 90 would grow to 117, but its column has 90; 20 to 26, but its row has 20; 5 to 6.5, of which 6 are whole bytes.
  EXPECT_THAT(demands.most(demands.matrices[0]), ElementsAre(0, 13, 90, 20, 0, 0, 6, 6, 0));
}

TEST(Demands, AreRefusedWhereTheyDoNotFitTogether) {
  const DemandMatrix bytes = parse_demand_csv("0,1\n2,0", "a.csv"), rates = parse_demand_csv("0,1GB/s\n0,0", "b.csv");
  const DemandMatrix named = parse_demand_csv("a,b\n0,1\n2,0", "c.csv"), none = parse_demand_csv("0,0\n0,0", "d.csv");
  const auto check = [](std::vector<DemandMatrix> matrices, Fraction uncertainty) {
    return testing::error_of([&] { check_demands({.matrices = std::move(matrices), .uncertainty = uncertainty}); });
  };
  EXPECT_EQ(check({bytes, none}, Fraction(1, 2)), "no error");
  EXPECT_EQ(check({none, rates}, Fraction(0)), "no error");
  EXPECT_THAT(check({bytes, rates}, Fraction(0)), HasSubstr("all in bytes or all rates"));
  EXPECT_THAT(check({bytes, named}, Fraction(0)), HasSubstr("same endpoints in the same order"));
  EXPECT_THAT(check({none}, Fraction(0)), HasSubstr("all demands are 0"));
  EXPECT_THAT(check({bytes}, Fraction(-1, 2)), HasSubstr("an uncertainty is from 0 to 1000"));
}

}  // namespace
}  // namespace banyan::design

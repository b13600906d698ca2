#include "banyan/job/goal/goal.h"

#include <unistd.h>

#include "banyan/base/file.h"
#include "banyan/job/test_job.h"
#include "banyan/testing/test.h"

namespace banyan::job::goal {
namespace {

std::string error_of(std::string_view text) {
  try {
    parse_job(text, "f.goal");
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(StartsWith("f.goal"), ::testing::Not(HasSubstr("\n"))));
    EXPECT_LT(std::string(error.what()).size(), 900u);
    return error.what();
  }
  return "";
}

TEST(Goal, ReadsEveryOperation) {
  const Job job = parse_job(R"(
    num_ranks 2   // ranks
    rank 1 { r: recv 4096b from -1 tag -1 cpu 2 nic 3
             recv 7 from 0 }
    rank 0 {
      l1: calc 1500 /* nanoseconds,
                       on CPU 0 */
      l3: send 4096b to 1 nic 1 tag 7 cpu 4
      l3 requires l1   l2 irequires l3
      l2 : calc 3 cpu 1
    })",
                            "f.goal");
  EXPECT_EQ(describe(job),
            "rank 0 stream 'cpu 0' order 1\n"
            "rank 0 stream 'cpu 4 nic 1' order 2\n"
            "rank 0 stream 'cpu 1' order 1\n"
            "rank 0 node 0 'l1' compute 1500000 ps 0.000000 FLOP on 'cpu 0'\n"
            "rank 0 node 1 'l3' send 4096 B to 1 tag 7 on 'cpu 4 nic 1' needs 0\n"
            "rank 0 node 2 'l2' compute 3000 ps 0.000000 FLOP on 'cpu 1' follows 1\n"
            "rank 1 stream 'cpu 2 nic 3' order 2\n"
            "rank 1 stream 'cpu 0 nic 0' order 2\n"
            "rank 1 node 0 'r' receive 4096 B from anybody tag any on 'cpu 2 nic 3'\n"
            "rank 1 node 1 '' receive 7 B from 0 tag 0 on 'cpu 0 nic 0'\n");
}

TEST(Goal, TakesWordsOfOptionsAsLabelsInTheNextLine) {
  const Job job = parse_job("num_ranks 1 rank 0 {\n a: calc 1\n tag: calc 2\n tag requires a }", "f.goal");
  EXPECT_EQ(job.name_of(job.program(0).nodes[1]), "tag");
}

TEST(Goal, KeepsLabelsOfRanksApart) {
  const Job job = parse_job(
      "num_ranks 2 rank 0 { a: calc 1\n b: calc 2\n b requires a } rank 1 { b: calc 3\n a: calc 4\n a requires b }",
      "f");
  EXPECT_THAT(job.program(0).needs(1), ElementsAre(0));
  EXPECT_THAT(job.program(1).needs(1), ElementsAre(0));
  EXPECT_THAT(error_of("num_ranks 2 rank 0 { a: calc 1 } rank 1 { b: calc 3\n b requires a }"),
              HasSubstr("line 2: label 'a' is not declared in rank 1"));
}

TEST(Goal, NamesLineCulpritAndMend) {
  const std::string two = "num_ranks 2\nrank 0 {\n";
  EXPECT_THAT(error_of(""), HasSubstr("f.goal line 1: expected 'num_ranks', found the end of the file"));
  EXPECT_THAT(error_of("num_ranks x"), HasSubstr("num_ranks is a whole number, found 'x'"));
  EXPECT_THAT(error_of("num_ranks 0"), HasSubstr("num_ranks '0' is not in 1 to 1000000"));
  EXPECT_THAT(error_of("num_ranks 99999999999999999999"), HasSubstr("is not in 1 to 1000000"));
  EXPECT_THAT(error_of("num_ranks 1000000"),
              HasSubstr("rank 0 of 1000000 has no block; if it does nothing, write 'rank 0 { }'"));
  EXPECT_THAT(error_of(two + "}\nrank 0 {}"), HasSubstr("line 4: rank 0 has two blocks"));
  EXPECT_THAT(error_of(two + "}\nrank 2 {}"), HasSubstr("line 4: a rank '2' is not in 0 to 1"));
  EXPECT_THAT(error_of(two + "}\n}"), HasSubstr("line 4: expected 'rank', found '}'"));
  EXPECT_THAT(error_of(two + " calc 1\n"), HasSubstr("line 4: the block of rank 0 begins in line 2 and is not closed"));
  EXPECT_THAT(error_of(two + "calc -5 }"), HasSubstr("line 3: a time in nanoseconds '-5' is not in 0 to"));
  EXPECT_THAT(error_of(two + "calc 9223372036854775807 }"), HasSubstr("is not in 0 to 1152921504606846"));
  EXPECT_THAT(error_of(two + "send 18446744073709551615b to 1 }"), HasSubstr("a size in bytes '18446744073709551615'"));
  EXPECT_THAT(error_of(two + "send b to 1 }"), HasSubstr("a size in bytes is a whole number, found 'b'"));
  EXPECT_THAT(error_of(two + "send 8kb to 1 }"), HasSubstr("found '8kb'"));
  EXPECT_THAT(error_of(two + "send 8b from 1 }"), HasSubstr("expected 'to', found 'from'"));
  EXPECT_THAT(error_of(two + "send 8b to 2 }"), HasSubstr("a rank '2' is not in 0 to 1"));
  EXPECT_THAT(error_of(two + "send 8b to -1 }"), HasSubstr("a rank '-1' is not in 0 to 1"));
  EXPECT_THAT(error_of(two + "send 8b to 0 }"), HasSubstr("rank 0 sends to or receives from itself; write a calc"));
  EXPECT_THAT(error_of(two + "send 8b to 1 tag -1 }"), HasSubstr("a tag '-1' is not in 0 to 4294967294"));
  EXPECT_THAT(error_of(two + "recv 8b from 1 tag 4294967295 }"), HasSubstr("a tag '4294967295'"));
  EXPECT_THAT(error_of(two + "a: calc 1\na: calc 2 }"), HasSubstr("line 4: label 'a' is declared twice in rank 0"));
  EXPECT_THAT(error_of(two + "a: foo 1 }"), HasSubstr("expected send, recv or calc behind label 'a', found 'foo'"));
  EXPECT_THAT(error_of(two + "a calc 1 }"), HasSubstr("'requires' or 'irequires' behind 'a', found 'calc'"));
  EXPECT_THAT(error_of(two + "a: calc 1\na requires }"), HasSubstr("line 4: expected a label, found '}'"));
  EXPECT_THAT(error_of(two + "a: calc 1\na requires b\n\n}"), HasSubstr("line 4: label 'b' is not declared in rank 0"));
  EXPECT_THAT(error_of(two + "/* x\n\n"), HasSubstr("line 3: the comment that begins here is not closed; add '*/'"));
  EXPECT_THAT(error_of(two + "calc 1 / calc 2"), HasSubstr("line 3: a single '/' means nothing"));
  EXPECT_THAT(error_of(two + std::string(300, 'x')), HasSubstr("is longer than 200 characters"));
  EXPECT_THAT(
      error_of(two + "a: calc 1\nb: calc 1\na requires b\nb irequires a\n}"),
      HasSubstr("line 2: rank 0: nodes wait for one another in a circle: 'a' (node 0) needs 'b' (node 1), which "
                "follows the first"));
  EXPECT_THAT(error_of(std::string("num_ranks 1 rank 0 { \0 }", 24)), HasSubstr("line 1: expected an operation"));
}

TEST(Goal, CloseCommentsOnlyAtTheirEnd) {
  EXPECT_EQ(error_of("num_ranks 1 rank 0 { /**/ calc 1 /* * / ** */ calc 2 // }\n }//"), "");
  EXPECT_THAT(error_of("num_ranks 1 rank 0 { } /*/"), HasSubstr("is not closed"));
}

TEST(Goal, ReadsBackWhatItWrote) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Job job = random_message_job(seed);
    const std::string text = write_job(job);
    const Job again = parse_job(text, "again");
    ASSERT_EQ(describe(again), describe(job)) << "seed " << seed << "\n" << text;
    ASSERT_EQ(write_job(again), text) << "seed " << seed;
  }
}

// What is not a word, or is there twice, cannot be a label.
TEST(Goal, NumbersLabelsWhereNamesCannotBeLabels) {
  for (const char* second : {"first", "two words", "", "calc", "1st", "a:b"}) {
    Job::Builder builder("test");
    builder.begin_program();
    builder.add_stream({"s", Stream::Order::program});
    builder.add_node({.name = builder.add_name("first"), .duration = std::chrono::nanoseconds(5)});
    builder.add_node({.name = builder.add_name(second), .duration = std::chrono::nanoseconds(6)});
    builder.add_rank(0, {}, {});
    EXPECT_EQ(write_job(std::move(builder).build()),
              "num_ranks 1\nrank 0 {\nn0: calc 5 cpu 0\nn1: calc 6 cpu 0\nn1 requires n0\n}\n")
        << second;
  }
}

// Ranks that share a program are written one by one, streams in order become dependencies, and times whole nanoseconds.
TEST(Goal, SaysInItsOwnWordsWhatItHasNoWordsFor) {
  Job::Builder builder("test");
  builder.begin_program();
  builder.add_stream({"compute", Stream::Order::ready});
  builder.add_stream({"network", Stream::Order::program});
  builder.add_node({.name = builder.add_name("a"), .duration = Picoseconds(1501), .flop = 1e9});
  builder.add_node({.kind = NodeKind::memory, .name = builder.add_name("m"), .bytes = 9, .duration = Picoseconds(499)});
  builder.add_node({.kind = NodeKind::marker, .name = builder.add_name("end")});
  builder.add_node({.kind = NodeKind::send, .stream = 1, .name = builder.add_name("s"), .bytes = 64});
  builder.add_node({.kind = NodeKind::receive, .stream = 1, .name = builder.add_name("r"), .bytes = 64});
  builder.add_need(3, 0);
  for (uint32_t rank = 0; rank < 2; ++rank) builder.add_rank(0, {}, std::vector{1 - rank});
  const std::string text = write_job(std::move(builder).build());
  EXPECT_EQ(text,
            "num_ranks 2\n"
            "rank 0 {\na: calc 2 cpu 0\nm: calc 0 cpu 0\nend: calc 0 cpu 0\ns: send 64b to 1 tag 0 cpu 1 nic 0\n"
            "r: recv 64b from 1 tag 0 cpu 1 nic 0\ns requires a\nr requires s\n}\n"
            "rank 1 {\na: calc 2 cpu 0\nm: calc 0 cpu 0\nend: calc 0 cpu 0\ns: send 64b to 0 tag 0 cpu 1 nic 0\n"
            "r: recv 64b from 0 tag 0 cpu 1 nic 0\ns requires a\nr requires s\n}\n");
  EXPECT_EQ(write_job(parse_job(text, "again")), text);
}

TEST(Goal, RefusesToWriteCollectives) {
  Job::Builder builder("test");
  builder.add_group("dp", {0});
  builder.begin_program();
  builder.add_stream({"s", Stream::Order::program});
  builder.add_node({.kind = NodeKind::collective, .name = builder.add_name("grads"), .bytes = 8});
  builder.add_rank(0, std::vector{0u}, {});
  EXPECT_THAT(testing::error_of([&] { write_job(std::move(builder).build()); }, ErrorCode::unsupported),
              HasSubstr("rank 0 node 0 'grads' is a collective (allreduce)"));
}

TEST(Goal, ReadsFilesInPieces) {
  std::string text = "num_ranks 2\nrank 1 { }\nrank 0 {\n";
  for (int i = 0; i < 20'000; ++i) {
    const std::string label = "label_" + std::to_string(i);
    text += label + ": calc " + std::to_string(i) + " // " + std::to_string(i * i) + "\n";
    if (i > 0) text += label + " requires label_" + std::to_string(i / 2) + "\n";
  }
  const std::string path = std::filesystem::temp_directory_path() / ("goal_test." + std::to_string(::getpid()));
  write_file(path, text + "}\n");
  const Job job = read_job(path);
  std::filesystem::remove(path);
  ASSERT_EQ(job.program(0).nodes.size(), 20'000u);
  for (uint32_t i = 1; i < 20'000; ++i) {
    EXPECT_EQ(job.program(0).nodes[i].duration, std::chrono::nanoseconds(i));
    EXPECT_THAT(job.program(0).needs(i), ElementsAre(i / 2));
  }
  EXPECT_THAT(testing::error_of([&] { read_job(path); }, ErrorCode::not_found),
              StartsWith(path + ": cannot read it: "));
}

// As some editors write it.
TEST(Goal, AByteOrderMarkIsPassedOver) {
  const std::string text = "num_ranks 1\nrank 0 {\n  l1: calc 5\n}\n";
  EXPECT_EQ(parse_job("\xef\xbb\xbf" + text, "t").node_count(), parse_job(text, "t").node_count());
  EXPECT_THROW(parse_job("\xef\xbb\xbf", "t"), Error);
}

}  // namespace
}  // namespace banyan::job::goal

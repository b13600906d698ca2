#include "banyan/base/plain_text.h"

#include <zlib.h>

#include "banyan/testing/test.h"

namespace banyan {
namespace {

std::string text_of(const std::string& bytes) { return plain_text(bytes, "file").text; }

std::string gzipped(const std::string& text) {
  std::string packed(text.size() + 100, '\0');
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

TEST(PlainText, TakesMarksAndCarriageReturnsOff) {
  EXPECT_EQ(text_of("\xef\xbb\xbf"
                    "a <-> b\r\nb <-> c\r\n"),
            "a <-> b\nb <-> c\n");
  EXPECT_EQ(text_of("\xef\xbb\xbf{\"a\": 1}"), "{\"a\": 1}");
  EXPECT_EQ(text_of(std::string("\xff\xfe"
                                "a\0b\0\xe9\0",
                                8)),
            "ab\xc3\xa9");
  EXPECT_EQ(text_of(std::string("\xfe\xff"
                                "\0a\0b\xd8\x3d\xde\x00",
                                10)),
            "ab\xf0\x9f\x98\x80");
}

TEST(PlainText, UnpacksGzip) {
  EXPECT_EQ(text_of(gzipped("SwitchName=s0\n")), "SwitchName=s0\n");
  const std::string packed = gzipped("SwitchName=s0\n");
  EXPECT_THAT(testing::error_of([&] { plain_text(packed.substr(0, packed.size() - 6), "cut.gz"); }),
              HasSubstr("the gzip data ends in the middle"));
}

TEST(PlainText, TakesEscapesOffAlsoThoseThatLostTheirFirstByte) {
  EXPECT_EQ(text_of("\t\x1b[4mGPU0\tGPU1\x1b[0m\n"), "\tGPU0\tGPU1\n");
  EXPECT_EQ(text_of("\t[4mGPU0\tGPU1[0m\n"), "\tGPU0\tGPU1\n");
  EXPECT_EQ(text_of("Nodes=n[0-1],m[4]\n"), "Nodes=n[0-1],m[4]\n");
  EXPECT_EQ(text_of("a\x1b[31;1mb\x1b"), "ab");
}

TEST(PlainText, TakesTheTagsOfLaunchersOffAndTellsSo) {
  const PlainText plain = plain_text("[1,0]<stdout>:# size\n[1,0]<stdout>:  8 1\n[1,1]<stderr>:oops\n", "log");
  EXPECT_EQ(plain.text, "# size\n  8 1\noops\n");
  EXPECT_THAT(plain.notes,
              ElementsAre("what a launcher writes before each line ('[1,0]<stdout>:') was taken off 3 lines"));
  EXPECT_EQ(text_of("node7: # size\nnode7:   8 1\n"), "# size\n  8 1\n");
  EXPECT_EQ(text_of("0: # size\n0:   8 1\n"), "# size\n  8 1\n");
  EXPECT_EQ(text_of("a -> b 1GB/s\na -> c 1GB/s\n"), "a -> b 1GB/s\na -> c 1GB/s\n");
}

TEST(PlainText, PassesPromptsOverAndKeepsTheNumbersOfLines) {
  const PlainText plain = plain_text("root@gpu7:~# nvidia-smi topo -m\n$ cat x\nrow\n", "table");
  EXPECT_EQ(plain.text, "\n\nrow\n");
  EXPECT_THAT(plain.notes, ElementsAre("prompts of a shell were passed over: 2 lines"));
  EXPECT_EQ(text_of("x@H-1 <-> y 400Gb/s\n"), "x@H-1 <-> y 400Gb/s\n");
}

TEST(PlainText, BeginsWhereItIsTold) {
  PlainText plain = plain_text("GPU Topology:\nwhat follows\nhead\nrow\n", "report");
  plain.begin_at([](std::string_view line) { return line == "head"; });
  EXPECT_EQ(plain.text, "\n\nhead\nrow\n");
  EXPECT_THAT(plain.notes, ElementsAre("2 lines above what is read were passed over"));
  PlainText other = plain_text("a\nb\n", "report");
  other.begin_at([](std::string_view) { return false; });
  EXPECT_EQ(other.text, "a\nb\n");
  EXPECT_THAT(other.notes, IsEmpty());
}

}  // namespace
}  // namespace banyan

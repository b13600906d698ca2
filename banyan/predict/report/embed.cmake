# cmake -DPAGE=report.html -DOUT=page_template.cc -P embed.cmake: the page as an array of bytes.
file(READ ${PAGE} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "#include \"banyan/predict/report/page_template.h\"

namespace banyan::predict::report {
namespace {
constexpr unsigned char kPage[] = {
${bytes}};
}  // namespace

std::string_view page_template() { return {reinterpret_cast<const char*>(kPage), sizeof kPage}; }

}  // namespace banyan::predict::report
")

# cmake -DPAGE=report.html -DOUT=page_template.cc -DHEADER=banyan/x/page_template.h -DNAMESPACE=banyan::x
#   -DFUNCTION=page_template -P embed_page.cmake: a page as an array of bytes, behind the function that the header
# declares.
file(READ ${PAGE} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "#include \"${HEADER}\"

namespace ${NAMESPACE} {
namespace {
constexpr unsigned char kPage[] = {
${bytes}};
}  // namespace

std::string_view ${FUNCTION}() { return {reinterpret_cast<const char*>(kPage), sizeof kPage}; }

}  // namespace ${NAMESPACE}
")

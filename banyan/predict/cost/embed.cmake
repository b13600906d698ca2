# cmake -DIN=devices.json -DOUT=devices_json.cc -P embed.cmake: the file as a text in the program.
file(READ ${IN} text)
file(WRITE ${OUT} "#include \"banyan/predict/cost/devices_json.h\"

namespace banyan::predict {

std::string_view devices_json() { return R\"json(${text})json\"; }

}  // namespace banyan::predict
")

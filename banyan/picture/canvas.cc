#include "banyan/picture/canvas.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace banyan::picture {
namespace {

// Two code points that are UTF-8 but no XML, U+FFFE and U+FFFF, become the replacement character; control characters,
// which are no XML either, become question marks.
std::string escaped(std::string_view text) {
  static const std::map<char, const char*> kEscapes = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view three = text.substr(i, 3);
    if (three == "\xEF\xBF\xBE" || three == "\xEF\xBF\xBF") {
      result += "\xEF\xBF\xBD";
      i += 2;
      continue;
    }
    const auto found = kEscapes.find(text[i]);
    const char shown = static_cast<unsigned char>(text[i]) < 0x20 ? '?' : text[i];
    result += found == kEscapes.end() ? std::string(1, shown) : found->second;
  }
  return result;
}

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

}  // namespace

std::string number(double value) {
  const long long tenths = std::llround(value * 10);
  const unsigned long long size = static_cast<unsigned long long>(tenths < 0 ? -tenths : tenths);
  std::string text = (tenths < 0 ? "-" : "") + std::to_string(size / 10);
  if (size % 10 != 0) text += "." + std::to_string(size % 10);
  return text;
}

double text_width(std::string_view text, double size) {
  double ems = 0;
  for (const char c : text) {
    // Letters beyond ASCII may be as wide as they are high.
    if (begins_character(c))
      ems += static_cast<unsigned char>(c) >= 0x80 ? 1.0 : (c == 'm' || c == 'w' || c == '@' ? 0.9 : 0.62);
  }
  return ems * size;
}

double title_scale(Extent picture) {
  constexpr double kPlainWidth = 900, kSlide = 1.4;  // width over height
  return std::clamp(std::max(picture.width, picture.height * kSlide) / kPlainWidth, 1.0, 2.5);
}

std::string shortened(std::string_view text, size_t most) {
  size_t characters = 0, kept = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!begins_character(text[i])) continue;
    if (++characters == most) kept = i;
  }
  return characters <= most ? std::string(text) : std::string(text.substr(0, kept)) + "…";
}

void Canvas::start(const char* element, Attributes attributes) {
  body_ += std::string("<") + element;
  for (const auto& [name, value] : attributes) {
    if (!value.empty()) body_ += std::string(" ") + name + "=\"" + escaped(value) + "\"";
  }
}

void Canvas::draw(const char* element, Attributes attributes, std::string_view tip) {
  start(element, attributes);
  body_ += tip.empty() ? "/>\n" : "><title>" + escaped(tip) + "</title></" + element + ">\n";
}

void Canvas::open(const char* element, Attributes attributes, std::string_view tip) {
  start(element, attributes);
  body_ += tip.empty() ? ">\n" : "><title>" + escaped(tip) + "</title>\n";
}

void Canvas::close(const char* element) { body_ += std::string("</") + element + ">\n"; }

void Canvas::text(Point at, std::string_view text, const TextStyle& style) {
  // dominant-baseline is not known everywhere; a third of the size below the middle is where the baseline is.
  const std::string place = style.upright
                                ? "translate(" + number(at.x + style.size * 0.35) + " " + number(at.y) + ") rotate(-90)"
                                : "translate(" + number(at.x) + " " + number(at.y + style.size * 0.35) + ")";
  body_ += "<text transform=\"" + place + "\" font-size=\"" + number(style.size) + "\" text-anchor=\"" + style.anchor +
           "\" fill=\"" + style.colour + "\"" + (style.bold ? " font-weight=\"bold\"" : "") + ">" + escaped(text) +
           "</text>\n";
}

std::string Canvas::finish(double width, double height, std::string_view title) const {
  const std::string w = number(width), h = number(height);
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
         "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" +
         w + "\" height=\"" + h + "\" viewBox=\"0 0 " + w + " " + h +
         "\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n<title>" + escaped(title) +
         "</title>\n"
         "<defs><marker id=\"arrow\" viewBox=\"0 0 10 10\" refX=\"6\" refY=\"5\" markerWidth=\"7.5\" "
         "markerHeight=\"7.5\" "
         "markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0.8 L10 5 L0 9.2 z\" "
         "fill=\"#1A202C\"/></marker></defs>\n"
         "<rect width=\"100%\" height=\"100%\" fill=\"#FFFFFF\"/>\n" +
         body_ + "</svg>\n";
}

}  // namespace banyan::picture

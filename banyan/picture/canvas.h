// A page of SVG: shapes with names escaped and numbers written the same on every machine.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace banyan::picture {

struct Point {
  double x = 0, y = 0;
};
struct Extent {
  double width = 0, height = 0;
};

// An upper bound of the text's width in the fonts we name: narrow fonts leave air, and none overlaps.
double text_width(std::string_view text, double size);
// The text, or its beginning and an ellipsis when it has more than `most` characters.
std::string shortened(std::string_view text, size_t most);

// The factor by which titles and legends are larger than on a small picture: a slide shrinks a large picture, and they
// must stay readable.
double title_scale(Extent picture);

std::string number(double value);  // one decimal at most: "12", "-0.5"

class Canvas {
 public:
  using Attributes = std::initializer_list<std::pair<const char*, std::string>>;

  // <element attributes/>, or with a tooltip <element attributes><title>tip</title></element>. Attributes without a
  // value are left out.
  void draw(const char* element, Attributes attributes, std::string_view tip = {});
  void open(const char* element, Attributes attributes, std::string_view tip = {});
  void close(const char* element);

  struct TextStyle {
    double size = 12;
    const char* colour = "#1A202C";
    const char* anchor = "middle";  // start, middle, end
    bool bold = false;
    bool upright = false;  // turned a quarter, to be read from below
  };
  // `at` is the middle of the text's height.
  void text(Point at, std::string_view text, const TextStyle& style);

  // The document with everything drawn so far.
  std::string finish(double width, double height, std::string_view title) const;

 private:
  void start(const char* element, Attributes attributes);
  std::string body_;
};

}  // namespace banyan::picture

// An XML document whose elements know the lines where they stand. Private to this folder.
#pragma once

#include <algorithm>
#include <cstddef>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/text.h"

namespace banyan::fabric {

class XmlFile {
 public:
  // Copies the text. Throws Error{invalid_input} with the line when it is no XML.
  explicit XmlFile(std::string_view text) {
    for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) ends_.push_back(at);
    const pugi::xml_parse_result result =
        document_.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
    if (!result) {
      throw Error(ErrorCode::invalid_input, "broken XML: " + lower(result.description()) + "; is the file complete?",
                  "line " + std::to_string(line_at(result.offset)));
    }
    for (pugi::xml_node more = root().next_sibling(); more; more = more.next_sibling()) {
      if (more.type() != pugi::node_element) continue;
      throw bad(more, "a second <" + std::string(more.name()).substr(0, 40) +
                          "> begins here, but a file describes one server; give one of them, and for several servers "
                          "like it say --boxes, as in --boxes 2");
    }
  }

  pugi::xml_node root() const { return document_.document_element(); }
  size_t line(pugi::xml_node node) const { return line_at(node.offset_debug()); }
  // An Error{invalid_input} about this element.
  Error bad(pugi::xml_node node, const std::string& message) const {
    return Error(ErrorCode::invalid_input, message, "line " + std::to_string(line(node)));
  }

 private:
  size_t line_at(ptrdiff_t offset) const {
    if (offset < 0) return 1;
    const auto end = std::lower_bound(ends_.begin(), ends_.end(), static_cast<size_t>(offset));
    return static_cast<size_t>(end - ends_.begin()) + 1;
  }

  std::vector<size_t> ends_;  // of lines
  pugi::xml_document document_;
};

}  // namespace banyan::fabric

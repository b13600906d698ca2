// The four drawings behind picture.h, one file per format and subject.
#pragma once

#include <string>

#include "banyan/schedule/picture_model.h"

namespace banyan::picture {

std::string fabric_as_svg(const Fabric& fabric);                     // picture_svg.cc
std::string trees_as_svg(const Fabric& fabric, const Grove& grove);  // picture_tree_svg.cc
std::string fabric_as_dot(const Fabric& fabric);                     // picture_dot.cc
std::string trees_as_dot(const Fabric& fabric, const Grove& grove);  // picture_dot.cc

}  // namespace banyan::picture

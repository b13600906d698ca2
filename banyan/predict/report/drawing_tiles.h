// The two halves of drawing.h that know one another.
#pragma once

#include "banyan/predict/report/drawing.h"

namespace banyan::report {

// Fills drawing.edges from drawing.unit_of, without paths. (drawing.cc)
void gather_edges(const Fabric& fabric, Drawing& drawing);

// The drawing of a fabric that is too large to show node by node. (drawing_tiles.cc)
Drawing draw_tiles(const Fabric& fabric);

}  // namespace banyan::report

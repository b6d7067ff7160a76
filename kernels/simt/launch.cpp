#include "kernels/simt/launch.h"

#include <fmt/format.h>

namespace genesis::simt {

void check_launch(const Launch& l) {
  constexpr int64_t kMostX = (int64_t(1) << 31) - 1, kMostYZ = 65535;
  const Grid& g = l.grid;
  if (l.block <= 0 || l.block % kWarpSize != 0 || l.block > 1024) {
    throw Error(fmt::format("kernel {}: a block of {} threads: expected a multiple of 32 up to 1024", l.name,
                            l.block));
  }
  if (g.x < 0 || g.x > kMostX || g.y < 0 || g.y > kMostYZ || g.z < 0 || g.z > kMostYZ) {
    throw Error(fmt::format("kernel {}: a grid of {} x {} x {} blocks: at most {} x {} x {}", l.name, g.x,
                            g.y, g.z, kMostX, kMostYZ, kMostYZ));
  }
}

}  // namespace genesis::simt

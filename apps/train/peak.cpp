#include "apps/train/peak.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "engine/ops/product.h"
#include "kernels/common/parallel.h"

namespace genesis {

double measure_peak_flops(Device& device, DType dtype) {
  using Clock = std::chrono::steady_clock;
  // New threads share a core with the one that woke them until the system moves them: after 0.13 s was seen.
  constexpr std::chrono::milliseconds kEnough(250);
  // Two blocks of a product or more for each thread (kernels/matmul): at 2,048 x 1,024 x 1,024 two cores of a Zen 4
  // reach what they do at 2,048^3.
  const int64_t N = std::clamp<int64_t>(512 * thread_count(), 1024, 16384);
  const MatMulShape s{.M = 2048, .N = N, .K = 1024, .transpose_b = true, .a = dtype, .b = dtype, .c = dtype};
  const Product product = prepare_product(s, device);
  const auto array = [&](int64_t elements) {
    return DeviceBuffer(device, size_t(elements) * size_of(dtype));
  };
  const DeviceBuffer a = array(s.M * s.K), b = array(s.K * s.N), c = array(s.M * s.N),
                     scratch(device, std::max<size_t>(product_workspace(s, device.kind()), 1));
  double fastest = std::numeric_limits<double>::infinity();
  const auto end = Clock::now() + kEnough;
  auto start = Clock::now();
  for (auto done = start; done < end; start = done) {
    product(a.data(), b.data(), c.data(), scratch.data(), device.stream());
    done = Clock::now();
    fastest = std::min(fastest, std::chrono::duration<double>(done - start).count());
  }
  return 2. * double(s.M) * double(s.N) * double(s.K) / fastest;
}

}  // namespace genesis

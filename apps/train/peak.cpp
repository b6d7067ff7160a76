#include "apps/train/peak.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "engine/ops/product.h"
#include "kernels/common/parallel.h"

namespace genesis {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A product of this shape again and again for so long, at least once: the seconds of the fastest.
double fastest_product(Device& device, const MatMulShape& s, std::chrono::milliseconds enough) {
  const Product product = prepare_product(s, device);
  const auto array = [&](int64_t elements) { return DeviceBuffer(device, size_t(elements) * size_of(s.a)); };
  const DeviceBuffer a = array(s.M * s.K), b = array(s.K * s.N), c = array(s.M * s.N),
                     scratch(device, std::max<size_t>(product_workspace(s, device.kind()), 1));
  double fastest = std::numeric_limits<double>::infinity();
  const auto end = Clock::now() + enough;
  do {
    device.wait();
    const auto start = Clock::now();
    product(a.data(), b.data(), c.data(), scratch.data(), device.stream());
    device.wait();
    fastest = std::min(fastest, seconds_since(start));
  } while (Clock::now() < end);
  return fastest;
}

// Products of growing size, until one takes a millisecond, beside which its launch is nothing.
double measure_gpu(Device& device, DType dtype) {
  double most = 0;
  for (int64_t n = 256; n <= 8192; n *= 2) {
    const MatMulShape s{.M = n, .N = n, .K = n, .transpose_b = true, .a = dtype, .b = dtype, .c = dtype};
    const double seconds = fastest_product(device, s, std::chrono::milliseconds(20));
    most = std::max(most, product_flops(s) / seconds);
    if (seconds > 1e-3) break;
  }
  return most;
}

}  // namespace

double measure_peak_flops(Device& device, DType dtype) {
  if (device.kind() == DeviceKind::cuda) return measure_gpu(device, dtype);
  // New threads share a core with the one that woke them until the system moves them: after 0.13 s was seen.
  constexpr std::chrono::milliseconds kEnough(250);
  // Two blocks of a product or more for each thread (kernels/matmul): at 2,048 x 1,024 x 1,024 two cores of a Zen 4
  // reach what they do at 2,048^3.
  const int64_t N = std::clamp<int64_t>(512 * thread_count(), 1024, 16384);
  const MatMulShape s{.M = 2048, .N = N, .K = 1024, .transpose_b = true, .a = dtype, .b = dtype, .c = dtype};
  return product_flops(s) / fastest_product(device, s, kEnough);
}

}  // namespace genesis

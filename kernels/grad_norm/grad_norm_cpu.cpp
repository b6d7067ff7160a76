#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/common/chunks.h"
#include "kernels/grad_norm/grad_norm.h"

namespace genesis::cpu {

namespace {

constexpr int64_t kChunk = 16384;  // elements of one partial sum

// In double: a square of a finite fp32 never overflows, and the order of the sum hardly matters.
double sum_of_squares(const float* x, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += double(x[i]) * double(x[i]);
  return sum;
}

}  // namespace

size_t grad_norm_workspace(const GradTensor* tensors, int64_t count) {
  return size_t(chunk_count(tensors, count, kChunk)) * sizeof(double);
}

void grad_norm(const GradNorm& a) {
  const double loss = a.loss_and_count->total_loss(), valid = a.loss_and_count->total_count();
  if (valid == 0) {
    a.norm_and_scale[0] = a.norm_and_scale[1] = 0;
    return;
  }
  double* partials = static_cast<double*>(a.workspace);
  parallel_for_chunks(a.tensors, a.count, kChunk,
                      [&](const GradTensor& t, int64_t begin, int64_t end, int64_t number) {
                        partials[number] = sum_of_squares(t.grad + begin, end - begin);
                      });
  const double sum = std::accumulate(partials, partials + chunk_count(a.tensors, a.count, kChunk), 0.0);

  const double norm = std::sqrt(sum) / valid;
  const double clip = a.max_norm > 0 && norm > a.max_norm ? a.max_norm / norm : 1.0;
  a.norm_and_scale[0] = float(norm);
  const bool finite = std::isfinite(a.norm_and_scale[0]) && std::isfinite(loss);
  a.norm_and_scale[1] = finite ? float(clip / valid) : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace genesis::cpu

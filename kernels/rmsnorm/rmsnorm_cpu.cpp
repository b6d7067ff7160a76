#include <algorithm>
#include <cmath>

#include "kernels/common/dispatch.h"
#include "kernels/common/parallel.h"
#include "kernels/common/simd.h"
#include "kernels/rmsnorm/rmsnorm.h"

namespace genesis::cpu {

namespace {

constexpr int64_t kRowBlock = 32;      // rows of one task and of one partial sum of d_weight
constexpr int64_t kColumnBlock = 256;  // columns of one task when the partial sums are added

template <class T>
float sum_of_squares(int64_t D, const T* h) {
  Vector squares = {};
  for_vectors(D, [&](int64_t d, auto lanes) {
    const Vector h_d = load_vector(h + d, lanes);
    squares += h_d * h_d;
  });
  return sum(squares);
}

// h = x + residual; the sum of the squares of the rounded h.
template <class T>
float add_residual(int64_t D, const T* x, const T* residual, T* h) {
  Vector squares = {};
  for_vectors(D, [&](int64_t d, auto lanes) {
    store_vector(h + d, load_vector(x + d, lanes) + load_vector(residual + d, lanes), lanes);
    const Vector h_d = load_vector(h + d, lanes);
    squares += h_d * h_d;
  });
  return sum(squares);
}

// The output of a row's h.
template <class T>
void normalise(int64_t D, const T* h, float rstd, const T* weight, T* y) {
  for_vectors(D, [&](int64_t d, auto lanes) {
    store_vector(y + d, load_vector(h + d, lanes) * rstd * load_vector(weight + d, lanes), lanes);
  });
}

template <class T>
void forward_row(const RmsNormForward& a, int64_t r) {
  const int64_t D = a.D;
  const T* x = static_cast<const T*>(a.x) + r * D;
  T* kept = a.h ? static_cast<T*>(a.h) + r * D : nullptr;

  const T* h = x;
  float sum;
  if (a.residual) {
    sum = add_residual(D, x, static_cast<const T*>(a.residual) + r * D, kept);
    h = kept;
  } else {
    sum = sum_of_squares(D, x);
    if (kept && kept != x) std::copy_n(x, D, kept);
  }
  const float rstd = 1.f / std::sqrt(sum / float(D) + a.eps);
  if (a.rstd) a.rstd[r] = rstd;
  normalise(D, h, rstd, static_cast<const T*>(a.weight), static_cast<T*>(a.y) + r * D);
}

template <class T, bool kAddResidual>
void backward_row(const RmsNormBackward& a, int64_t r, float* partial) {
  const int64_t D = a.D;
  const T* dy = static_cast<const T*>(a.dy) + r * D;
  const T* h = static_cast<const T*>(a.h) + r * D;
  const T* d_residual = kAddResidual ? static_cast<const T*>(a.d_residual) + r * D : nullptr;
  const T* weight = static_cast<const T*>(a.weight);
  T* dh = static_cast<T*>(a.dh) + r * D;

  Vector gh = {};
  for_vectors(D, [&](int64_t d, auto lanes) {
    gh += load_vector(dy + d, lanes) * load_vector(weight + d, lanes) * load_vector(h + d, lanes);
  });

  const float rstd = a.rstd[r];
  const float h_factor = rstd * rstd * rstd * (sum(gh) / float(D));
  for_vectors(D, [&](int64_t d, auto lanes) {
    const Vector dy_rstd = load_vector(dy + d, lanes) * rstd, h_d = load_vector(h + d, lanes);
    store_vector(partial + d, load_vector(partial + d, lanes) + dy_rstd * h_d, lanes);
    Vector dh_d = dy_rstd * load_vector(weight + d, lanes) - h_d * h_factor;
    if constexpr (kAddResidual) dh_d += load_vector(d_residual + d, lanes);
    store_vector(dh + d, dh_d, lanes);
  });
  if (a.y) normalise(D, h, rstd, weight, static_cast<T*>(a.y) + r * D);
}

}  // namespace

void rmsnorm_forward(const RmsNormForward& a) {
  require(!a.residual || a.h, "rmsnorm_forward with a residual needs h");
  with_float_type(a.dtype, [&](auto t) {
    using T = decltype(t);
    parallel_for_rows(a.rows, kRowBlock, [&](int64_t r) { forward_row<T>(a, r); });
  });
}

size_t rmsnorm_backward_workspace(int64_t rows, int64_t D) {
  return size_t(block_count(rows, kRowBlock) * D) * sizeof(float);
}

void rmsnorm_backward(const RmsNormBackward& a) {
  float* partials = static_cast<float*>(a.workspace);  // [blocks, D]
  const int64_t blocks = block_count(a.rows, kRowBlock);
  with_float_type(a.dtype, [&](auto t) {
    using T = decltype(t);
    parallel_for(blocks, [&](int64_t block) {
      float* partial = partials + block * a.D;
      std::fill_n(partial, a.D, 0.f);
      const int64_t end = std::min(a.rows, (block + 1) * kRowBlock);
      for (int64_t r = block * kRowBlock; r < end; ++r) {
        if (a.d_residual) {
          backward_row<T, true>(a, r, partial);
        } else {
          backward_row<T, false>(a, r, partial);
        }
      }
    });
  });
  parallel_for(block_count(a.D, kColumnBlock), [&](int64_t c) {
    const int64_t begin = c * kColumnBlock, end = std::min(a.D, begin + kColumnBlock);
    for (int64_t block = 0; block < blocks; ++block) {
      add_to(a.d_weight + begin, partials + block * a.D + begin, end - begin);
    }
  });
}

}  // namespace genesis::cpu

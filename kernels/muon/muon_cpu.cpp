#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/common/dispatch.h"
#include "kernels/common/parallel.h"
#include "kernels/common/simd.h"
#include "kernels/muon/muon.h"

namespace genesis::cpu {

namespace {

constexpr int64_t kChunk = 16384;  // elements of one task

// body(begin, end, number) for each chunk of n elements.
template <class Body>
void in_chunks(int64_t n, const Body& body) {
  parallel_for(block_count(n, kChunk),
               [&](int64_t chunk) { body(chunk * kChunk, std::min(n, (chunk + 1) * kChunk), chunk); });
}

Vector nesterov(Vector g, Vector m, float beta) { return (1.f - beta) * g + beta * m; }

}  // namespace

size_t muon_momentum_workspace(int64_t n) { return size_t(block_count(n, kChunk)) * sizeof(double); }

void muon_momentum(const MuonMomentum& a) {
  const float scale = a.norm_and_scale[1];
  if (!std::isfinite(scale)) {
    *a.norm = 0.f;
    return;
  }
  double* partials = static_cast<double*>(a.workspace);
  in_chunks(a.n, [&](int64_t begin, int64_t end, int64_t chunk) {
    double sums[kLanes] = {};  // in double: a square of a finite fp32 neither overflows nor vanishes
    for_vectors(end - begin, [&](int64_t k, auto lanes) {
      const int64_t i = begin + k;
      const Vector g = scale * load_vector(a.grad + i, lanes);
      const Vector m = a.beta * load_vector(a.m + i, lanes) + (1.f - a.beta) * g;
      store_vector(a.m + i, m, lanes);
      const Vector u = nesterov(g, m, a.beta);
      for (int lane = 0; lane < int(lanes); ++lane) sums[lane] += double(u[lane]) * double(u[lane]);
    });
    partials[chunk] = std::accumulate(sums, sums + kLanes, 0.0);
  });
  *a.norm = float(std::sqrt(std::accumulate(partials, partials + block_count(a.n, kChunk), 0.0)));
}

void muon_normalize(const MuonNormalize& a) {
  const float scale = a.norm_and_scale[1];
  const bool finite = std::isfinite(scale);
  const float factor = 1.f / (a.margin * std::max(*a.norm, kMuonLeastNorm));
  with_float_type(a.dtype, [&](auto type) {
    auto* x = static_cast<decltype(type)*>(a.x);
    in_chunks(a.n, [&](int64_t begin, int64_t end, int64_t) {
      for_vectors(end - begin, [&](int64_t k, auto lanes) {
        const int64_t i = begin + k;
        const Vector g = scale * load_vector(a.grad + i, lanes);
        const Vector u = nesterov(g, load_vector(a.m + i, lanes), a.beta);
        store_vector(x + i, finite ? factor * u : Vector{}, lanes);
      });
    });
  });
}

void muon_polynomial(const MuonPolynomial& a) {
  const int64_t rows_of_task = std::max<int64_t>(1, kChunk / a.rows);
  with_float_type(a.dtype, [&](auto type) {
    using T = decltype(type);
    const T* gram = static_cast<const T*>(a.gram);
    T* y = static_cast<T*>(a.y);
    parallel_for_rows(a.rows, rows_of_task, [&](int64_t row) {
      const int64_t first = row * a.rows;
      const float diagonal = a.p.a + a.p.b * float(gram[first + row]) + a.p.c * a.square[first + row];
      for_vectors(a.rows, [&](int64_t k, auto lanes) {
        const int64_t i = first + k;
        const Vector value = a.p.b * load_vector(gram + i, lanes) + a.p.c * load_vector(a.square + i, lanes);
        store_vector(y + i, value, lanes);
      });
      y[first + row] = T(diagonal);
    });
  });
}

void muon_update(const MuonUpdate& a) {
  if (!std::isfinite(a.norm_and_scale[1])) return;
  const float lr = a.step->lr;
  bf16* copy = static_cast<bf16*>(a.copy);
  with_float_type(a.dtype, [&](auto type) {
    const auto* x = static_cast<const decltype(type)*>(a.x);
    in_chunks(a.n, [&](int64_t begin, int64_t end, int64_t) {
      for_vectors(end - begin, [&](int64_t k, auto lanes) {
        const int64_t i = begin + k;
        Vector master = load_vector(a.master + i, lanes);
        master -= lr * (a.factor * load_vector(x + i, lanes) + a.weight_decay * master);
        store_vector(a.master + i, master, lanes);
        if (copy) store_vector(copy + i, master, lanes);
      });
    });
  });
}

}  // namespace genesis::cpu

#include <algorithm>
#include <cmath>

#include "kernels/common/dispatch.h"
#include "kernels/common/parallel.h"
#include "kernels/common/simd.h"
#include "kernels/qk_norm/qk_norm.h"
#include "kernels/rope/rope_cpu.h"

namespace genesis::cpu {

namespace {

constexpr int64_t kRowBlock = 32;  // rows of one task and of one partial sum of the weights' gradients
constexpr int64_t kMaxHead = 2 * kRopeMaxHalf;

// A row's angles.
struct Angles {
  float sine[kRopeMaxHalf], cosine[kRopeMaxHalf];
};

// A head on its way.
struct Head {
  alignas(64) float x[kMaxHead];
};

template <class T>
void load(int64_t K, const T* from, Head& to) {
  for_vectors(K, [&](int64_t i, auto lanes) { store_vector(to.x + i, load_vector(from + i, lanes), lanes); });
}

template <class T>
void store(int64_t K, const Head& from, T* to) {
  for_vectors(K, [&](int64_t i, auto lanes) { store_vector(to + i, load_vector(from.x + i, lanes), lanes); });
}

float rstd_of(const QkNormShape& s, const Head& head) {
  Vector squares = {};
  for_vectors(s.K, [&](int64_t i, auto lanes) {
    const Vector x = load_vector(head.x + i, lanes);
    squares += x * x;
  });
  return 1.f / std::sqrt(sum(squares) / float(s.K) + s.eps);
}

void turn(const QkNormShape& s, const Angles& angles, Head& head) {
  const int64_t half = s.K / 2;
  const auto pair = [&](float& first, float& second, int64_t i) {
    const float x = first, y = second;
    first = x * angles.cosine[i] - y * angles.sine[i];
    second = y * angles.cosine[i] + x * angles.sine[i];
  };
  if (s.interleaved) {
    for (int64_t i = 0; i < half; ++i) pair(head.x[2 * i], head.x[2 * i + 1], i);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < half; ++i) pair(head.x[i], head.x[i + half], i);
  }
}

template <class T>
void forward_row(const QkNormForward& a, const RopeFrequencies& frequencies, int64_t row) {
  const QkNormShape& s = a.shape;
  Angles angles;
  frequencies.at(a.positions[row], angles.sine, angles.cosine);
  const T* from = static_cast<const T*>(a.qkv) + row * s.row();
  T* to = static_cast<T*>(a.rotated) + row * s.row();
  Head h;
  for (int64_t head = 0; head < s.H + s.KV; ++head, from += s.K, to += s.K) {
    const T* weight = static_cast<const T*>(head < s.H ? a.q_weight : a.k_weight);
    load(s.K, from, h);
    const float rstd = rstd_of(s, h);
    for_vectors(s.K, [&](int64_t i, auto lanes) {
      store_vector(h.x + i, load_vector(h.x + i, lanes) * rstd * load_vector(weight + i, lanes), lanes);
    });
    turn(s, angles, h);
    store(s.K, h, to);
  }
  std::copy_n(from, s.KV * s.K, to);
}

// dw: [2, K], the row's part of the weights' gradients added.
template <class T>
void backward_row(const QkNormBackward& a, const RopeFrequencies& frequencies, int64_t row, float* dw) {
  const QkNormShape& s = a.shape;
  Angles back;
  frequencies.at(-a.positions[row], back.sine, back.cosine);
  const T* from = static_cast<const T*>(a.qkv) + row * s.row();
  T* d = static_cast<T*>(a.d_qkv) + row * s.row();
  Head x, g;
  for (int64_t head = 0; head < s.H + s.KV; ++head, from += s.K, d += s.K) {
    const bool is_query = head < s.H;
    const T* weight = static_cast<const T*>(is_query ? a.q_weight : a.k_weight);
    float* of_weight = is_query ? dw : dw + s.K;
    load(s.K, from, x);
    load(s.K, d, g);
    turn(s, back, g);
    const float rstd = rstd_of(s, x);
    Vector dot = {};
    for_vectors(s.K, [&](int64_t i, auto lanes) {
      const Vector gx = load_vector(g.x + i, lanes) * load_vector(x.x + i, lanes);
      store_vector(of_weight + i, load_vector(of_weight + i, lanes) + gx * rstd, lanes);
      dot += gx * load_vector(weight + i, lanes);
    });
    const float x_factor = rstd * rstd * rstd * (sum(dot) / float(s.K));
    for_vectors(s.K, [&](int64_t i, auto lanes) {
      const Vector gw = load_vector(g.x + i, lanes) * load_vector(weight + i, lanes);
      store_vector(d + i, rstd * gw - x_factor * load_vector(x.x + i, lanes), lanes);
    });
  }
}

void check_shape(const QkNormShape& s) {
  require(s.K % 2 == 0 && s.K <= kMaxHead, "qk_norm takes an even head size, up to 256");
}

}  // namespace

void qk_norm_forward(const QkNormForward& a) {
  check_shape(a.shape);
  const RopeFrequencies frequencies(a.shape.theta, a.shape.K);
  with_float_type(a.shape.dtype, [&](auto t) {
    parallel_for_rows(a.shape.rows, kRowBlock,
                      [&](int64_t row) { forward_row<decltype(t)>(a, frequencies, row); });
  });
}

size_t qk_norm_backward_workspace(int64_t rows, int64_t K) {
  return size_t(block_count(rows, kRowBlock) * 2 * K) * sizeof(float);
}

void qk_norm_backward(const QkNormBackward& a) {
  const QkNormShape& s = a.shape;
  check_shape(s);
  const RopeFrequencies frequencies(s.theta, s.K);
  float* partials = static_cast<float*>(a.workspace);  // [blocks, 2, K]
  const int64_t blocks = block_count(s.rows, kRowBlock);
  with_float_type(s.dtype, [&](auto t) {
    parallel_for(blocks, [&](int64_t block) {
      float* partial = partials + block * 2 * s.K;
      std::fill_n(partial, 2 * s.K, 0.f);
      const int64_t end = std::min(s.rows, (block + 1) * kRowBlock);
      for (int64_t row = block * kRowBlock; row < end; ++row) {
        backward_row<decltype(t)>(a, frequencies, row, partial);
      }
    });
  });
  for (int64_t block = 0; block < blocks; ++block) {
    add_to(a.d_q_weight, partials + block * 2 * s.K, s.K);
    add_to(a.d_k_weight, partials + (block * 2 + 1) * s.K, s.K);
  }
}

}  // namespace genesis::cpu

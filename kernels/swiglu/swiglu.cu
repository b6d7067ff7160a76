// Memory-bound: 3 elements moved an output element forward, 6 backward (with y), 16 bytes a thread and array.
#include "kernels/common/block_count.h"
#include "kernels/simt/floats.h"
#include "kernels/simt/simt.h"
#include "kernels/swiglu/swiglu.h"

namespace genesis::cuda {
namespace {

constexpr int kThreads = 128;

__device__ inline float sigmoid(float x) { return 1.f / (1.f + expf(-x)); }

// Whether x is out of the limits that a positive clamp sets. A NaN is not, and stays one.
__device__ inline bool above(float x, float clamp) { return clamp > 0 && x >= clamp; }

__device__ inline float limited_gate(float g, float clamp) { return above(g, clamp) ? clamp : g; }
__device__ inline float limited_up(float u, float clamp) {
  return above(fabsf(u), clamp) ? copysignf(clamp, u) : u;
}

// A block takes part of one row; a thread N elements of gate, and those of up beside them.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    swiglu_forward_kernel(int64_t F, float clamp, const T* gate_up, T* y) {
  const int64_t row = blockIdx.x, column = (int64_t(blockIdx.y) * kThreads + threadIdx.x) * N;
  if (column >= F) return;
  float gate[N], up[N], out[N];
  simt::load_floats(gate, gate_up + row * 2 * F + column);
  simt::load_floats(up, gate_up + row * 2 * F + F + column);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float g = limited_gate(gate[i], clamp);
    out[i] = g * sigmoid(g) * limited_up(up[i], clamp);
  }
  simt::store_floats(y + row * F + column, out);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    swiglu_backward_kernel(int64_t F, float clamp, const T* dy, const T* gate_up, T* d_gate_up, T* y) {
  const int64_t row = blockIdx.x, column = (int64_t(blockIdx.y) * kThreads + threadIdx.x) * N;
  if (column >= F) return;
  const int64_t gate_at = row * 2 * F + column, up_at = gate_at + F, y_at = row * F + column;
  float gate[N], up[N], d[N], again[N];
  simt::load_floats(gate, gate_up + gate_at);
  simt::load_floats(up, gate_up + up_at);
  simt::load_floats(d, dy + y_at);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float g = limited_gate(gate[i], clamp), u = limited_up(up[i], clamp), s = sigmoid(g);
    const bool gate_free = !above(gate[i], clamp), up_free = !above(fabsf(up[i]), clamp);
    again[i] = g * s * u;
    gate[i] = gate_free ? d[i] * u * (s + g * s * (1.f - s)) : 0.f;
    up[i] = up_free ? d[i] * g * s : 0.f;
  }
  simt::store_floats(d_gate_up + gate_at, gate);
  simt::store_floats(d_gate_up + up_at, up);
  if (y) simt::store_floats(y + y_at, again);
}

simt::Launch launch_of(const char* name, int64_t rows, int64_t F, int N, Stream stream) {
  const int64_t per_block = int64_t(kThreads) * N;
  return {.grid = {rows, block_count(F, per_block)}, .block = kThreads, .stream = stream, .name = name};
}

template <class T, int N>
void forward(const SwiGluForward& a, Stream stream) {
  simt::launch(swiglu_forward_kernel<T, N>, launch_of("swiglu_forward", a.rows, a.F, N, stream), a.F, a.clamp,
               static_cast<const T*>(a.gate_up), static_cast<T*>(a.y));
}

template <class T, int N>
void backward(const SwiGluBackward& a, Stream stream) {
  simt::launch(swiglu_backward_kernel<T, N>, launch_of("swiglu_backward", a.rows, a.F, N, stream), a.F,
               a.clamp, static_cast<const T*>(a.dy), static_cast<const T*>(a.gate_up),
               static_cast<T*>(a.d_gate_up), static_cast<T*>(a.y));
}

}  // namespace

// Rows of a width that 16-byte accesses do not divide are moved element by element.
void swiglu_forward(const SwiGluForward& a, Stream stream) {
  check(a.dtype != DType::i32, "swiglu_forward: expected f32 or bf16");
  if (a.dtype == DType::bf16) {
    a.F % 8 == 0 ? forward<bf16, 8>(a, stream) : forward<bf16, 1>(a, stream);
  } else {
    a.F % 4 == 0 ? forward<float, 4>(a, stream) : forward<float, 1>(a, stream);
  }
}

void swiglu_backward(const SwiGluBackward& a, Stream stream) {
  check(a.dtype != DType::i32, "swiglu_backward: expected f32 or bf16");
  if (a.dtype == DType::bf16) {
    a.F % 8 == 0 ? backward<bf16, 8>(a, stream) : backward<bf16, 1>(a, stream);
  } else {
    a.F % 4 == 0 ? backward<float, 4>(a, stream) : backward<float, 1>(a, stream);
  }
}

}  // namespace genesis::cuda

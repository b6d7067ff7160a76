#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "kernels/common/bf16.h"
#include "kernels/common/error.h"
#include "kernels/common/parallel.h"
#include "kernels/matmul/matmul.h"

namespace genesis::cpu {

namespace {

using Dim = dnnl::memory::dim;

dnnl::engine& engine() {
  static dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

dnnl::stream& stream() {
  static dnnl::stream s(engine());
  return s;
}

dnnl::memory::data_type onednn_type(DType t) {
  return t == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

// rows x columns of a row-major matrix, or of the transpose of one.
dnnl::memory::desc matrix(int64_t rows, int64_t columns, bool transposed, DType type) {
  const dnnl::memory::dims strides =
      transposed ? dnnl::memory::dims{1, Dim(rows)} : dnnl::memory::dims{Dim(columns), 1};
  return {{Dim(rows), Dim(columns)}, onednn_type(type), strides};
}

dnnl::matmul::primitive_desc describe(const MatMulShape& s) {
  const dnnl::memory::desc a = matrix(s.M, s.K, s.transpose_a, s.a);
  const dnnl::memory::desc b = matrix(s.K, s.N, s.transpose_b, s.b);
  const dnnl::memory::desc c = matrix(s.M, s.N, false, s.c);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (s.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.f);
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), a, b, c, attributes};
#else
  return {dnnl::matmul::desc(a, b, c), attributes, engine()};
#endif
}

// A CPU without bf16 hardware multiplies in fp32; bf16 operands are then widened first, and the product
// rounded.
MatMulShape computed_shape(MatMulShape s) {
  if (s.a == DType::bf16 && !has_bf16()) s.a = s.b = s.c = DType::f32;
  return s;
}

constexpr int64_t kConvertBlock = 16384;

const void* widen(const void* from, std::vector<float>& to) {
  const bf16* x = static_cast<const bf16*>(from);
  const int64_t n = int64_t(to.size());
  parallel_for(block_count(n, kConvertBlock), [&](int64_t block) {
    const int64_t end = std::min(n, (block + 1) * kConvertBlock);
    for (int64_t i = block * kConvertBlock; i < end; ++i) to[size_t(i)] = float(x[i]);
  });
  return to.data();
}

void narrow(const std::vector<float>& from, void* to) {
  bf16* y = static_cast<bf16*>(to);
  const int64_t n = int64_t(from.size());
  parallel_for(block_count(n, kConvertBlock), [&](int64_t block) {
    const int64_t end = std::min(n, (block + 1) * kConvertBlock);
    for (int64_t i = block * kConvertBlock; i < end; ++i) y[i] = bf16(from[size_t(i)]);
  });
}

}  // namespace

struct MatMul::State {
  explicit State(const MatMulShape& s)
      : shape(s),
        pd(describe(computed_shape(s))),
        product(pd),
        a(pd.src_desc(), engine(), DNNL_MEMORY_NONE),
        b(pd.weights_desc(), engine(), DNNL_MEMORY_NONE),
        c(pd.dst_desc(), engine(), DNNL_MEMORY_NONE),
        scratch(pd.scratchpad_desc(), engine()),
        arguments{
            {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}, {DNNL_ARG_SCRATCHPAD, scratch}} {
    const MatMulShape computed = computed_shape(s);
    if (computed.a != s.a) {
      wide_a.resize(size_t(s.M * s.K));
      wide_b.resize(size_t(s.K * s.N));
    }
    if (computed.c != s.c) wide_c.resize(size_t(s.M * s.N));
  }

  MatMulShape shape;
  dnnl::matmul::primitive_desc pd;
  dnnl::matmul product;
  dnnl::memory a, b, c, scratch;
  std::unordered_map<int, dnnl::memory> arguments;
  std::vector<float> wide_a, wide_b, wide_c;  // empty where the CPU computes the shape as it is
};

MatMul::MatMul(const MatMulShape& s) {
  require(s.M > 0 && s.N > 0 && s.K > 0, "matmul: a size is not positive");
  require(s.a == s.b && s.a != DType::i32 && s.c != DType::i32, "matmul: A and B have one type, f32 or bf16");
  require(!s.accumulate || s.c == DType::f32, "matmul: only an f32 C can be accumulated into");
  require(s.a == DType::bf16 || s.c == DType::f32, "matmul: f32 operands give an f32 product");
  state_ = std::make_unique<State>(s);
}

MatMul::~MatMul() = default;
MatMul::MatMul(MatMul&&) noexcept = default;
MatMul& MatMul::operator=(MatMul&&) noexcept = default;

const MatMulShape& MatMul::shape() const { return state_->shape; }

void MatMul::operator()(const void* a, const void* b, void* c) const {
  State& s = *state_;
  if (!s.wide_a.empty()) {
    a = widen(a, s.wide_a);
    b = widen(b, s.wide_b);
  }
  s.a.set_data_handle(const_cast<void*>(a));
  s.b.set_data_handle(const_cast<void*>(b));
  s.c.set_data_handle(s.wide_c.empty() ? c : s.wide_c.data());
  s.product.execute(stream(), s.arguments);
  stream().wait();
  if (!s.wide_c.empty()) narrow(s.wide_c, c);
}

bool has_bf16() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
}

}  // namespace genesis::cpu

#include <algorithm>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kernels/common/bf16.h"
#include "kernels/common/parallel.h"
#include "kernels/matmul/matmul.h"

namespace genesis::cpu {

namespace {

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

// With a transposed A, oneDNN shares a long sum out over its threads: from 2048 terms on in 2.6 (others are
// never shared). Sums of at most so many terms, added in order, give the same bits with any number of
// threads.
constexpr int64_t kTransposedTerms = 1024;

// A row-major matrix, rows `stride` elements apart, or the transpose of one.
dnnl::memory::desc matrix(int64_t rows, int64_t columns, bool transposed, int64_t stride, DType type) {
  const auto strides = transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  return {{rows, columns}, onednn_type(type), strides};
}

// The product over `terms` of the shape's K.
dnnl::matmul::primitive_desc describe(const MatMulShape& s, int64_t terms) {
  const auto a = matrix(s.M, terms, s.transpose_a, s.transpose_a ? s.M : s.K, s.a);
  const auto b = matrix(terms, s.N, s.transpose_b, s.transpose_b ? s.K : s.N, s.b);
  const auto c = matrix(s.M, s.N, false, s.N, s.c);
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

// A prepared product over some of the K terms, with everything that its execution needs.
class Product {
 public:
  Product(const MatMulShape& s, int64_t terms) : Product(describe(s, terms)) {}

  void operator()(const void* a, const void* b, void* c) {
    a_.set_data_handle(const_cast<void*>(a));
    b_.set_data_handle(const_cast<void*>(b));
    c_.set_data_handle(c);
    primitive_.execute(stream(), arguments_);
  }

 private:
  explicit Product(const dnnl::matmul::primitive_desc& pd)
      : primitive_(pd),
        a_(pd.src_desc(), engine(), DNNL_MEMORY_NONE),
        b_(pd.weights_desc(), engine(), DNNL_MEMORY_NONE),
        c_(pd.dst_desc(), engine(), DNNL_MEMORY_NONE),
        scratch_(pd.scratchpad_desc(), engine()),
        arguments_{
            {DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}, {DNNL_ARG_SCRATCHPAD, scratch_}} {
  }

  dnnl::matmul primitive_;
  dnnl::memory a_, b_, c_, scratch_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

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
  MatMulShape shape, computed;
  int64_t terms;                              // of one product
  std::optional<Product> head, tail;          // K / terms times; the rest of K
  std::vector<float> wide_a, wide_b, wide_c;  // empty where the CPU computes the shape as it is
};

MatMul::MatMul(const MatMulShape& s) : state_(std::make_unique<State>()) {
  require_computable(s);
  State& state = *state_;
  state.shape = s;
  state.computed = computed_shape(s);
  if (state.computed.a != s.a) {
    state.wide_a.resize(size_t(s.M * s.K));
    state.wide_b.resize(size_t(s.K * s.N));
  }
  if (state.computed.c != s.c) state.wide_c.resize(size_t(s.M * s.N));
  state.terms = s.transpose_a ? std::min(s.K, kTransposedTerms) : s.K;
  if (state.terms < s.K) state.computed.accumulate = true;
  state.head.emplace(state.computed, state.terms);
  if (s.K % state.terms) state.tail.emplace(state.computed, s.K % state.terms);
}

MatMul::~MatMul() = default;
MatMul::MatMul(MatMul&&) noexcept = default;
MatMul& MatMul::operator=(MatMul&&) noexcept = default;

const MatMulShape& MatMul::shape() const { return state_->shape; }

void MatMul::operator()(const void* a, const void* b, void* c) const {
  State& state = *state_;
  const MatMulShape& s = state.computed;
  if (!state.wide_a.empty()) {
    a = widen(a, state.wide_a);
    b = widen(b, state.wide_b);
  }
  void* product = state.wide_c.empty() ? c : state.wide_c.data();
  if (s.accumulate && !state.shape.accumulate) std::memset(product, 0, size_t(s.M * s.N) * sizeof(float));

  const int64_t a_stride = (s.transpose_a ? s.M : 1) * int64_t(size_of(s.a));
  const int64_t b_stride = (s.transpose_b ? 1 : s.N) * int64_t(size_of(s.b));
  for (int64_t k = 0; k < s.K; k += state.terms) {
    Product& part = k + state.terms <= s.K ? *state.head : *state.tail;
    part(static_cast<const char*>(a) + k * a_stride, static_cast<const char*>(b) + k * b_stride, product);
  }
  stream().wait();
  if (!state.wide_c.empty()) narrow(state.wide_c, c);
}

bool has_bf16() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
}

}  // namespace genesis::cpu

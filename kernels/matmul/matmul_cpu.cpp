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

// Whether oneDNN may use all of this instruction set. A set's bits include those of the sets it extends.
bool has(dnnl::cpu_isa isa) { return (int(dnnl::get_effective_cpu_isa()) & int(isa)) == int(isa); }

dnnl::memory::data_type onednn_type(DType t) {
  return t == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

// One dimension in blocks of one size; the last may be shorter.
struct Cut {
  int64_t size = 0, block = 0;
  int64_t count() const { return block_count(size, block); }
  bool last_is_short(int64_t i) const { return (i + 1) * block > size; }
  int64_t length(bool last_is_short) const { return last_is_short ? size % block : block; }
};

// How a product is made of oneDNN's, by the shape alone: never by the number of threads, so that the sums are
// the same with any.
struct Cuts {
  Cut m, n, k;
  bool one_thread_each = false;  // oneDNN's products get a thread each, and not all threads together
  bool pack_a = false;           // a block's part of A is copied together first
};

// With AVX-512, oneDNN shares out a long sum over its threads only where A is transposed: from 2048 terms on
// in 2.6. Sums of at most so many terms are added in order.
constexpr int64_t kTransposedTerms = 1024;
// Without, it shares out and orders the sums of many shapes by its threads: each gets blocks of its own then,
// of at most so many rows and columns.
constexpr int64_t kBlockRows = 256, kBlockColumns = 512;
// A transposed A with rows a multiple of so many elements apart, 4 KB, halves the speed of blocks this small.
constexpr int64_t kBadStride = 1024;

Cut evenly(int64_t size, int64_t most) {
  constexpr int64_t kVectors = 16;  // whole vectors of registers
  return {size, block_count(block_count(size, block_count(size, most)), kVectors) * kVectors};
}

Cuts cuts_of(const MatMulShape& s) {
  if (has(dnnl::cpu_isa::avx512_core)) {
    return {{s.M, s.M}, {s.N, s.N}, {s.K, s.transpose_a ? std::min(s.K, kTransposedTerms) : s.K}};
  }
  const Cut rows = evenly(s.M, kBlockRows);
  return {.m = rows,
          .n = evenly(s.N, kBlockColumns),
          .k = {s.K, s.K},
          .one_thread_each = true,
          .pack_a = s.transpose_a && s.M % kBadStride == 0 && rows.count() > 1};
}

// How far apart the rows of A are, as it is stored or copied together.
int64_t stride_of_a(const MatMulShape& s, const Cuts& cuts) {
  if (cuts.pack_a) return cuts.m.block;
  return s.transpose_a ? s.M : s.K;
}

// While one lives, oneDNN prepares for and uses the calling thread alone.
class OneThread {
 public:
  OneThread() : threads_(thread_count()) { set_thread_count(1); }
  ~OneThread() { set_thread_count(threads_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int threads_;
};

// A row-major matrix, rows `stride` elements apart, or the transpose of one.
dnnl::memory::desc matrix(int64_t rows, int64_t columns, bool transposed, int64_t stride, DType type) {
  const auto strides = transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  return {{rows, columns}, onednn_type(type), strides};
}

// The product of M rows and N columns of the shape over `terms` of its K.
dnnl::matmul::primitive_desc describe(const MatMulShape& s, const Cuts& cuts, int64_t M, int64_t N,
                                      int64_t terms) {
  const auto a = matrix(M, terms, s.transpose_a, stride_of_a(s, cuts), s.a);
  const auto b = matrix(terms, N, s.transpose_b, s.transpose_b ? s.K : s.N, s.b);
  const auto c = matrix(M, N, false, s.N, s.c);
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

// A prepared product of a block, with everything that its execution needs, for every thread that may call it.
class Product {
 public:
  Product(const MatMulShape& s, const Cuts& cuts, int64_t M, int64_t N, int64_t terms)
      : description_(describe(s, cuts, M, N, terms)), primitive_(description_) {}

  void reserve(int callers) {
    while (int(callers_.size()) < callers) callers_.emplace_back(description_);
  }

  void operator()(int caller, const void* a, const void* b, void* c) {
    Caller& by = callers_[size_t(caller)];
    by.a.set_data_handle(const_cast<void*>(a));
    by.b.set_data_handle(const_cast<void*>(b));
    by.c.set_data_handle(c);
    primitive_.execute(by.stream, by.arguments);
    by.stream.wait();
  }

 private:
  struct Caller {
    dnnl::memory a, b, c, scratch;
    std::unordered_map<int, dnnl::memory> arguments;
    dnnl::stream stream;
    explicit Caller(const dnnl::matmul::primitive_desc& d)
        : a(d.src_desc(), engine(), DNNL_MEMORY_NONE),
          b(d.weights_desc(), engine(), DNNL_MEMORY_NONE),
          c(d.dst_desc(), engine(), DNNL_MEMORY_NONE),
          scratch(d.scratchpad_desc(), engine()),
          arguments{
              {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}, {DNNL_ARG_SCRATCHPAD, scratch}},
          stream(engine()) {}
  };

  dnnl::matmul::primitive_desc description_;
  dnnl::matmul primitive_;
  std::vector<Caller> callers_;
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
  Cuts cuts;
  std::optional<Product> products[2][2][2];   // of blocks that are shorter in M, in N, in K, or are not
  std::vector<float> wide_a, wide_b, wide_c;  // empty where the CPU computes the shape as it is
  std::vector<std::vector<float>> packed;     // of each caller

  void prepare();
  void reserve(int callers);
  const void* pack(int caller, int64_t i, const void* a);
  void multiply(int caller, int64_t i, int64_t j, const void* a, const void* b, void* c);
};

void MatMul::State::prepare() {
  std::optional<OneThread> alone;
  if (cuts.one_thread_each) alone.emplace();
  const Cut &m = cuts.m, &n = cuts.n, &k = cuts.k;
  for (int64_t i : {int64_t(0), m.count() - 1}) {
    for (int64_t j : {int64_t(0), n.count() - 1}) {
      for (int64_t l : {int64_t(0), k.count() - 1}) {
        const bool short_m = m.last_is_short(i), short_n = n.last_is_short(j), short_k = k.last_is_short(l);
        std::optional<Product>& p = products[short_m][short_n][short_k];
        if (!p) p.emplace(computed, cuts, m.length(short_m), n.length(short_n), k.length(short_k));
      }
    }
  }
}

void MatMul::State::reserve(int callers) {
  if (int(packed.size()) < callers) packed.resize(size_t(callers));
  for (auto& of_m : products) {
    for (auto& of_n : of_m) {
      for (auto& product : of_n) {
        if (product) product->reserve(callers);
      }
    }
  }
}

// The part of a transposed f32 A for the i-th rows of the product.
const void* MatMul::State::pack(int caller, int64_t i, const void* a) {
  const Cut& m = cuts.m;
  std::vector<float>& to = packed[size_t(caller)];
  to.resize(size_t(computed.K * m.block));
  const float* from = static_cast<const float*>(a) + i * m.block;
  const size_t bytes = size_t(m.length(m.last_is_short(i))) * sizeof(float);
  for (int64_t k = 0; k < computed.K; ++k)
    std::memcpy(&to[size_t(k * m.block)], from + k * computed.M, bytes);
  return to.data();
}

// Block (i, j) of the product, its terms in order.
void MatMul::State::multiply(int caller, int64_t i, int64_t j, const void* a, const void* b, void* c) {
  const MatMulShape& s = computed;
  const Cut &m = cuts.m, &n = cuts.n, &k = cuts.k;
  const int64_t row = i * m.block, column = j * n.block;
  const auto at = [](const void* base, int64_t index, DType type) {
    return static_cast<const char*>(base) + index * int64_t(size_of(type));
  };
  const int64_t a_stride = stride_of_a(s, cuts);
  const int64_t a_row = cuts.pack_a ? 0 : row;
  if (cuts.pack_a) a = pack(caller, i, a);
  char* out = static_cast<char*>(c) + (row * s.N + column) * int64_t(size_of(s.c));
  for (int64_t l = 0; l < k.count(); ++l) {
    const int64_t term = l * k.block;
    Product& product = *products[m.last_is_short(i)][n.last_is_short(j)][k.last_is_short(l)];
    product(caller, at(a, s.transpose_a ? term * a_stride + a_row : row * a_stride + term, s.a),
            at(b, s.transpose_b ? column * s.K + term : term * s.N + column, s.b), out);
  }
}

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
  state.cuts = cuts_of(s);
  if (state.cuts.k.count() > 1) state.computed.accumulate = true;
  state.prepare();
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

  if (state.cuts.one_thread_each) {
    const int64_t columns = state.cuts.n.count();
    state.reserve(thread_count());
    parallel_for(state.cuts.m.count() * columns, [&](int64_t block) {
      const OneThread alone;
      state.multiply(thread_index(), block / columns, block % columns, a, b, product);
    });
  } else {
    state.reserve(1);
    state.multiply(0, 0, 0, a, b, product);
  }
  if (!state.wide_c.empty()) narrow(state.wide_c, c);
}

bool has_bf16() { return has(dnnl::cpu_isa::avx512_core_bf16); }

}  // namespace genesis::cpu

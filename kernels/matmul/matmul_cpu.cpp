#include <omp.h>

#include <algorithm>
#include <atomic>
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
  bool has(bool is_short) const { return is_short ? size % block != 0 : size >= block; }
  int64_t length(bool last_is_short) const { return last_is_short ? size % block : block; }
};

// How a product is made of oneDNN's, by the shape alone: never by the number of threads, so that the sums are
// the same with any. A block is one thread's, its sums whole: oneDNN would share out and order the sums of many
// shapes by its threads, and OpenMP's threads wait badly (kernels/common/parallel.cpp).
struct Cuts {
  Cut m, n;
  bool pack_a = false;  // a block's part of A is copied together first
};

// At most so many rows and columns a block: of large products, which lose a tenth of their speed to smaller
// blocks, and of others, which lose none and so have work for more threads.
constexpr int64_t kLargeProduct = int64_t(1) << 20;  // elements of C
constexpr int64_t kLargeRows = 256, kLargeColumns = 512;
constexpr int64_t kRows = 128, kColumns = 256;
// Without AVX-512, a transposed A with rows a multiple of so many elements apart, 4 KB, halves the speed of
// blocks this small.
constexpr int64_t kBadStride = 1024;

Cut evenly(int64_t size, int64_t most) {
  constexpr int64_t kVectors = 16;  // whole vectors of registers
  return {size, block_count(block_count(size, block_count(size, most)), kVectors) * kVectors};
}

Cuts cuts_of(const MatMulShape& s) {
  const bool large = s.M * s.N > kLargeProduct;
  const Cut rows = evenly(s.M, large ? kLargeRows : kRows);
  if (s.symmetric) return {.m = rows, .n = rows};
  if (s.whole) return {.m = {s.M, s.M}, .n = {s.N, s.N}};
  return {.m = rows,
          .n = evenly(s.N, large ? kLargeColumns : kColumns),
          .pack_a =
              s.transpose_a && s.M % kBadStride == 0 && rows.count() > 1 && !has(dnnl::cpu_isa::avx512_core)};
}

// Block (row, column) of a product.
struct Block {
  int64_t row = 0, column = 0;
};

// In rows one after the other; of a symmetric product those on the diagonal and left of it.
std::vector<Block> blocks_of(const MatMulShape& s, const Cuts& cuts) {
  std::vector<Block> blocks;
  for (int64_t i = 0; i < cuts.m.count(); ++i) {
    const int64_t columns = s.symmetric ? i + 1 : cuts.n.count();
    for (int64_t j = 0; j < columns; ++j) blocks.push_back({i, j});
  }
  return blocks;
}

// How far apart the rows of A are, as it is stored or copied together.
int64_t stride_of_a(const MatMulShape& s, const Cuts& cuts) {
  if (cuts.pack_a) return cuts.m.block;
  return s.transpose_a ? s.M : s.K;
}

// While one lives, oneDNN prepares for and uses the calling thread alone.
class OneThread {
 public:
  OneThread() : threads_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(threads_); }
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

// The product of M rows and N columns of the shape.
dnnl::matmul::primitive_desc describe(const MatMulShape& s, const Cuts& cuts, int64_t M, int64_t N) {
  const auto a = matrix(M, s.K, s.transpose_a, stride_of_a(s, cuts), s.a);
  const auto b = matrix(s.K, N, s.transpose_b, s.transpose_b ? s.K : s.N, s.b);
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
  Product(const dnnl::matmul::primitive_desc& description, int callers) : primitive_(description) {
    for (int i = 0; i < callers; ++i) callers_.emplace_back(description);
  }

  void operator()(int caller, const void* a, const void* b, void* c, void* scratch) {
    Caller& by = callers_[size_t(caller)];
    by.a.set_data_handle(const_cast<void*>(a));
    by.b.set_data_handle(const_cast<void*>(b));
    by.c.set_data_handle(c);
    by.scratch.set_data_handle(scratch);
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
          scratch(d.scratchpad_desc(), engine(), DNNL_MEMORY_NONE),
          arguments{
              {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}, {DNNL_ARG_SCRATCHPAD, scratch}},
          stream(engine()) {}
  };

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

const float* widen(const void* from, float* to, int64_t n) {
  const bf16* x = static_cast<const bf16*>(from);
  parallel_for(block_count(n, kConvertBlock), [&](int64_t block) {
    const int64_t end = std::min(n, (block + 1) * kConvertBlock);
    for (int64_t i = block * kConvertBlock; i < end; ++i) to[i] = float(x[i]);
  });
  return to;
}

void narrow(const float* from, void* to, int64_t n) {
  bf16* y = static_cast<bf16*>(to);
  parallel_for(block_count(n, kConvertBlock), [&](int64_t block) {
    const int64_t end = std::min(n, (block + 1) * kConvertBlock);
    for (int64_t i = block * kConvertBlock; i < end; ++i) y[i] = bf16(from[i]);
  });
}

constexpr size_t kAlign = 256;
size_t aligned(size_t bytes) { return block_count(bytes, kAlign) * kAlign; }

// How a product is made, and how its scratch memory lies: wide copies of A, B and C where the CPU does not compute
// the shape as it is, then for each caller oneDNN's scratch and a block's part of A.
struct Design {
  MatMulShape shape, computed;
  Cuts cuts;
  std::vector<Block> order;
  std::optional<dnnl::matmul::primitive_desc> blocks[2][2];  // that are shorter in M, in N, or are not
  int callers = 1;
  size_t wide_b = 0, wide_c = 0, of_callers = 0, packed = 0, of_a_caller = 0;  // bytes

  explicit Design(const MatMulShape& s);
  size_t bytes() const { return of_callers + size_t(callers) * of_a_caller; }
};

const MatMulShape& computable(const MatMulShape& s) {
  require_computable(s);
  return s;
}

Design::Design(const MatMulShape& s)
    : shape(computable(s)), computed(computed_shape(s)), cuts(cuts_of(s)), order(blocks_of(s, cuts)) {
  callers = int(std::min<int64_t>(thread_count(), int64_t(order.size())));
  const OneThread alone;
  for (const bool m : {false, true}) {
    for (const bool n : {false, true}) {
      if (!cuts.m.has(m) || !cuts.n.has(n)) continue;
      blocks[m][n] = describe(computed, cuts, cuts.m.length(m), cuts.n.length(n));
      packed = std::max(packed, aligned(blocks[m][n]->scratchpad_desc().get_size()));
    }
  }
  const auto wide = [](bool is_so, int64_t rows, int64_t columns) {
    return is_so ? aligned(size_t(rows * columns) * sizeof(float)) : 0;
  };
  wide_b = wide(computed.a != s.a, s.M, s.K);
  wide_c = wide_b + wide(computed.b != s.b, s.K, s.N);
  of_callers = wide_c + wide(computed.c != s.c, s.M, s.N);
  of_a_caller = packed + wide(cuts.pack_a, s.K, cuts.m.block);
}

}  // namespace

struct MatMul::State {
  Design design;
  std::optional<Product> products[2][2];

  explicit State(const MatMulShape& shape);
  void multiply(int caller, Block block, const void* a, const void* b, void* c, char* scratch);
};

MatMul::State::State(const MatMulShape& shape) : design(shape) {
  const OneThread alone;
  for (const int m : {0, 1}) {
    for (const int n : {0, 1}) {
      if (design.blocks[m][n]) products[m][n].emplace(*design.blocks[m][n], design.callers);
    }
  }
}

namespace {

// Copies the part of a transposed f32 A for the i-th rows of the product.
void pack(const Design& d, int64_t i, const void* a, float* to) {
  const Cut& m = d.cuts.m;
  const float* from = static_cast<const float*>(a) + i * m.block;
  const size_t bytes = size_t(m.length(m.last_is_short(i))) * sizeof(float);
  for (int64_t k = 0; k < d.computed.K; ++k) std::memcpy(to + k * m.block, from + k * d.computed.M, bytes);
}

// Writes the transpose of a block of c to the place of its mirror image; strips of the image's rows stay in cache.
template <class T>
void mirror(T* c, int64_t n, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  constexpr int64_t kStrip = 16;
  for (int64_t first = 0; first < rows; first += kStrip) {
    const int64_t end = std::min(rows, first + kStrip);
    for (int64_t j = column; j < column + columns; ++j) {
      for (int64_t i = row + first; i < row + end; ++i) c[j * n + i] = c[i * n + j];
    }
  }
}

}  // namespace

void MatMul::State::multiply(int caller, Block block, const void* a, const void* b, void* c, char* scratch) {
  const auto [i, j] = block;
  const MatMulShape& s = design.computed;
  const Cut &m = design.cuts.m, &n = design.cuts.n;
  const int64_t row = i * m.block, column = j * n.block;
  const auto at = [](const void* base, int64_t index, DType type) {
    return static_cast<const char*>(base) + index * int64_t(size_of(type));
  };
  scratch += design.of_callers + size_t(caller) * design.of_a_caller;
  const void* rows_of_a = at(a, s.transpose_a ? row : row * s.K, s.a);
  if (design.cuts.pack_a) {
    float* packed = reinterpret_cast<float*>(scratch + design.packed);
    pack(design, i, a, packed);
    rows_of_a = packed;
  }
  void* out = static_cast<char*>(c) + (row * s.N + column) * int64_t(size_of(s.c));
  Product& product = *products[m.last_is_short(i)][n.last_is_short(j)];
  product(caller, rows_of_a, at(b, s.transpose_b ? column * s.K : column, s.b), out, scratch);
  if (!s.symmetric || i == j) return;
  const int64_t rows = m.length(m.last_is_short(i)), columns = n.length(n.last_is_short(j));
  if (s.c == DType::f32) {
    mirror(static_cast<float*>(c), s.N, row, rows, column, columns);
  } else {
    mirror(static_cast<bf16*>(c), s.N, row, rows, column, columns);
  }
}

MatMul::MatMul(const MatMulShape& s) : state_(std::make_unique<State>(s)) {}
MatMul::~MatMul() = default;
MatMul::MatMul(MatMul&&) noexcept = default;
MatMul& MatMul::operator=(MatMul&&) noexcept = default;

void MatMul::operator()(const void* a, const void* b, void* c, void* workspace) const {
  const Design& d = state_->design;
  const MatMulShape &s = d.computed, &asked = d.shape;
  char* scratch = static_cast<char*>(workspace);
  const auto wide = [&](size_t begin) { return reinterpret_cast<float*>(scratch + begin); };
  if (s.a != asked.a) {
    a = widen(a, wide(0), s.M * s.K);
    b = widen(b, wide(d.wide_b), s.K * s.N);
  }
  void* product = s.c == asked.c ? c : wide(d.wide_c);
  const auto blocks = int64_t(d.order.size());
  // Each caller takes blocks until none is left: there is scratch memory for so many, however many threads run.
  std::atomic<int64_t> next = 0;
  parallel_for(d.callers, [&](int64_t caller) {
    const OneThread alone;
    for (int64_t block; (block = next++) < blocks;) {
      state_->multiply(int(caller), d.order[size_t(block)], a, b, product, scratch);
    }
  });
  if (s.c != asked.c) narrow(wide(d.wide_c), c, s.M * s.N);
}

size_t matmul_workspace(const MatMulShape& shape) { return Design(shape).bytes(); }

bool has_bf16() { return has(dnnl::cpu_isa::avx512_core_bf16); }

}  // namespace genesis::cpu

// Each matrix is taken from its gradient to its new value before the next, so that one matrix's scratch memory is
// enough. On a CPU small ones are taken several at a time, each by a thread of its own: their products are too
// small to be shared out.
#include "engine/ops/muon.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "engine/core/align.h"
#include "engine/ops/helpers.h"
#include "engine/ops/product.h"
#include "kernels/common/bf16.h"
#include "kernels/common/parallel.h"
#include "kernels/elementwise/elementwise.h"

namespace genesis::ops {
namespace {

std::string text(const Node& n) {
  const auto& a = attrs_of<MuonAttrs>(n);
  return fmt::format("[{}, {}] beta={:g} factor={:g} a={:g} matrices={}", a.rows, a.columns, a.beta, a.factor,
                     a.coefficients.steps[0].a, a.matrices.size());
}

size_t tensors(const Node& n) { return n.in.size() - 2; }

// The iteration is done in the type that the model computes with.
DType type_of_iteration(const Node& n) { return n.into.size() == 3 * tensors(n) ? DType::bf16 : DType::f32; }

// in: step [1], norm_and_scale [2], then the gradients
// into: masters, moments, then compute copies (none where the master is computed with), each as many as there are
//       gradients
std::vector<ValueType> infer(const Graph& g, const Node& n) {
  const auto& a = attrs_of<MuonAttrs>(n);
  check_input(n.in.size() > 2, g, n, "a step, norm and scale, and gradients");
  const size_t count = tensors(n);
  check_input(n.into.size() == 2 * count || n.into.size() == 3 * count, g, n,
              "a master, a moment and perhaps a copy a gradient");
  check_input(a.rows > 0 && a.columns > 0 && !a.matrices.empty(), g, n, "matrices of some size");
  for (size_t i = 0; i < count; ++i) {
    const Shape whole = input(g, n, 2 + i).shape;
    check_input(whole.rank() == 2 && whole[1] == a.columns, g, n,
                "gradients with as many columns as the matrices");
    for (const size_t array : {i, count + i}) check_into(g, n, array, {whole, DType::f32});
    if (n.into.size() == 3 * count) check_into(g, n, 2 * count + i, {whole, DType::bf16});
  }
  for (const auto& m : a.matrices) {
    const bool known = m.tensor >= 0 && size_t(m.tensor) < count;
    check_input(
        known && m.first_row >= 0 && m.first_row + a.rows <= input(g, n, 2 + size_t(m.tensor)).shape[0], g, n,
        "matrices that are rows of a gradient");
  }
  return {};
}

// A = X X^T, A^2, and (a I + b A + c A^2) X; or of the other side, which is smaller where X is tall.
struct Products {
  MatMulShape gram, square, apply;
  bool tall = false;
};

// Small matrices are taken several at a time.
bool small(const MuonAttrs& a) { return a.rows * a.columns <= int64_t(1) << 20; }

Products products_of_matrix(const Node& n) {
  const auto& a = attrs_of<MuonAttrs>(n);
  const DType t = type_of_iteration(n);
  const int64_t side = std::min(a.rows, a.columns), large = std::max(a.rows, a.columns);
  const bool whole = small(a);
  Products p;
  p.tall = a.rows > a.columns;
  p.gram = {.M = side,
            .N = side,
            .K = large,
            .transpose_a = p.tall,
            .transpose_b = !p.tall,
            .a = t,
            .b = t,
            .c = DType::f32,
            .symmetric = true,
            .whole = whole};
  p.square = {
      .M = side, .N = side, .K = side, .a = t, .b = t, .c = DType::f32, .symmetric = true, .whole = whole};
  p.apply = {.M = a.rows, .N = a.columns, .K = side, .a = t, .b = t, .c = t, .whole = whole};
  return p;
}

// How a matrix's arrays lie in its part of the workspace, in bytes. Gram matrices are made in fp32; where the
// iteration is in bf16, they are rounded into an array of their own.
struct Layout {
  size_t x[2], gram, square, rounded, norm, momentum, product, end;
};

Layout layout(const Node& n, DeviceKind kind) {
  const auto& a = attrs_of<MuonAttrs>(n);
  const Products p = products_of_matrix(n);
  const size_t elements = size_t(a.rows * a.columns), squares = size_t(p.square.M * p.square.M);
  const size_t x = aligned(elements * size_of(p.apply.c)), wide = aligned(squares * sizeof(float));
  const bool rounds = p.apply.c != DType::f32;
  Layout l;
  l.x[0] = 0;
  l.x[1] = x;
  l.gram = 2 * x;
  l.square = l.gram + wide;
  l.rounded = rounds ? l.square + wide : l.gram;
  l.norm = l.square + wide + (rounds ? aligned(squares * size_of(p.apply.c)) : 0);
  l.momentum = l.norm + aligned(sizeof(float));
  l.product =
      l.momentum + aligned(kind == DeviceKind::cpu ? cpu::muon_momentum_workspace(int64_t(elements))
                                                   : cuda::muon_momentum_workspace(int64_t(elements)));
  size_t product = 0;  // one at a time
  for (const MatMulShape& s : {p.gram, p.square, p.apply}) {
    product = std::max(product, product_workspace(s, kind));
  }
  l.end = aligned(l.product + product);
  return l;
}

// Matrices that are taken at a time. No result depends on it.
int64_t lanes(const Node& n, DeviceKind kind) {
  constexpr int64_t kMost = 8;  // so much scratch memory
  const auto& a = attrs_of<MuonAttrs>(n);
  if (kind != DeviceKind::cpu || !small(a)) return 1;
  return std::min({int64_t(a.matrices.size()), int64_t(thread_count()), kMost});
}

// The kernels of one kind of device.
struct CpuKernels {
  static constexpr auto momentum = cpu::muon_momentum;
  static constexpr auto normalize = cpu::muon_normalize;
  static constexpr auto polynomial = cpu::muon_polynomial;
  static constexpr auto update = cpu::muon_update;
  static constexpr auto cast = cpu::cast;
};
struct CudaKernels {
  static constexpr auto momentum = cuda::muon_momentum;
  static constexpr auto normalize = cuda::muon_normalize;
  static constexpr auto polynomial = cuda::muon_polynomial;
  static constexpr auto update = cuda::muon_update;
  static constexpr auto cast = cuda::cast;
};

// The step of a matrix but for the matrix itself: everything that is made between gradient and update.
struct Lane {
  Product gram, square, apply;
  void* product_scratch = nullptr;
  bool tall = false;
  void* x[2] = {};
  MuonMomentum momentum;
  MuonNormalize normalize;
  MuonPolynomial polynomial;
  Cast round;  // of a Gram matrix; from == to: there is none
  MuonUpdate update;
  MuonCoefficients coefficients;

  Lane(const BoundNode& b, char* workspace);
};

Lane::Lane(const BoundNode& b, char* workspace) {
  const auto& a = b.attrs<MuonAttrs>();
  const Products p = products_of_matrix(b.node);
  const Layout at = layout(b.node, b.device.kind());
  const auto array = [&](size_t offset) { return as<void>(workspace + offset); };
  gram = prepare_product(p.gram, b.device);
  square = prepare_product(p.square, b.device);
  apply = prepare_product(p.apply, b.device);
  product_scratch = array(at.product);
  tall = p.tall;
  x[0] = array(at.x[0]);
  x[1] = array(at.x[1]);
  coefficients = a.coefficients;

  momentum.n = normalize.n = update.n = a.rows * a.columns;
  momentum.beta = normalize.beta = a.beta;
  momentum.norm_and_scale = normalize.norm_and_scale = update.norm_and_scale = as<float>(b.in[1]);
  momentum.norm = as<float>(array(at.norm));
  momentum.workspace = array(at.momentum);
  normalize.norm = momentum.norm;
  normalize.margin = a.coefficients.margin;
  normalize.dtype = polynomial.dtype = update.dtype = p.apply.c;
  normalize.x = x[0];
  polynomial.rows = p.square.M;
  polynomial.square = as<float>(array(at.square));
  polynomial.gram = polynomial.y = array(at.rounded);
  round = {polynomial.rows * polynomial.rows, DType::f32, p.apply.c, array(at.gram), array(at.rounded)};
  update.x = x[coefficients.count % 2];
  update.factor = a.factor;
  update.step = as<MuonStep>(b.in[0]);
}

struct Matrix {
  const float* grad = nullptr;
  float* m = nullptr;
  float* master = nullptr;
  void* copy = nullptr;
  float weight_decay = 0.f;
};

template <class Kernels>
void run(const Lane& lane, const Matrix& matrix, Stream stream) {
  MuonMomentum momentum = lane.momentum;
  momentum.grad = matrix.grad;
  momentum.m = matrix.m;
  start(Kernels::momentum, momentum, stream);
  MuonNormalize normalize = lane.normalize;
  normalize.grad = matrix.grad;
  normalize.m = matrix.m;
  start(Kernels::normalize, normalize, stream);
  for (int i = 0; i < lane.coefficients.count; ++i) {
    const void* x = lane.x[i % 2];
    void* square = const_cast<float*>(lane.polynomial.square);
    lane.gram(x, x, const_cast<void*>(lane.round.x), lane.product_scratch, stream);
    if (lane.round.from != lane.round.to) start(Kernels::cast, lane.round, stream);
    lane.square(lane.polynomial.gram, lane.polynomial.gram, square, lane.product_scratch, stream);
    MuonPolynomial polynomial = lane.polynomial;
    polynomial.p = lane.coefficients.steps[i];
    start(Kernels::polynomial, polynomial, stream);
    lane.apply(lane.tall ? x : polynomial.y, lane.tall ? polynomial.y : x, lane.x[(i + 1) % 2],
               lane.product_scratch, stream);
  }
  MuonUpdate update = lane.update;
  update.weight_decay = matrix.weight_decay;
  update.master = matrix.master;
  update.copy = matrix.copy;
  start(Kernels::update, update, stream);
}

std::vector<Matrix> matrices_of(const BoundNode& b) {
  const auto& a = b.attrs<MuonAttrs>();
  const size_t count = tensors(b.node);
  std::vector<Matrix> all;
  for (const auto& m : a.matrices) {
    const auto t = size_t(m.tensor);
    const int64_t begin = m.first_row * a.columns;
    Matrix matrix{as<float>(b.in[2 + t]) + begin, as<float>(b.into[count + t]) + begin,
                  as<float>(b.into[t]) + begin, nullptr, m.weight_decay};
    if (b.into.size() == 3 * count) matrix.copy = as<bf16>(b.into[2 * count + t]) + begin;
    all.push_back(matrix);
  }
  return all;
}

template <class Kernels>
Run prepare(const BoundNode& b) {
  const DeviceKind kind = b.device.kind();
  const size_t bytes = layout(b.node, kind).end;
  auto all = std::make_shared<std::vector<Lane>>();
  for (int64_t i = 0; i < lanes(b.node, kind); ++i) {
    all->emplace_back(b, as<char>(b.workspace) + size_t(i) * bytes);
  }
  return [all, matrices = matrices_of(b)](Stream stream) {
    if (all->size() == 1) {
      for (const Matrix& matrix : matrices) run<Kernels>(all->front(), matrix, stream);
      return;
    }
    std::atomic<size_t> next = 0;
    parallel_for(int64_t(all->size()), [&](int64_t lane) {
      for (size_t i; (i = next++) < matrices.size();) {
        run<Kernels>((*all)[size_t(lane)], matrices[i], stream);
      }
    });
  };
}

template <DeviceKind kind>
size_t workspace(const Graph&, const Node& n) {
  return size_t(lanes(n, kind)) * layout(n, kind).end;
}

std::vector<MatMulShape> products(const Graph&, const Node& n, DeviceKind) {
  const Products p = products_of_matrix(n);
  std::vector<MatMulShape> all;
  const auto& a = attrs_of<MuonAttrs>(n);
  for (size_t i = 0; i < a.matrices.size() * size_t(a.coefficients.count); ++i) {
    all.insert(all.end(), {p.gram, p.square, p.apply});
  }
  return all;
}

Cost cost(const Graph& g, const Node& n) {
  const auto& a = attrs_of<MuonAttrs>(n);
  const DType t = type_of_iteration(n);
  const auto count = double(a.matrices.size()), elements = count * double(a.rows * a.columns);
  const double iterations = a.coefficients.count, side = double(std::min(a.rows, a.columns));
  const double squares = count * iterations * side * side;
  const auto x = double(size_of(t)), copy = t == DType::f32 ? 0. : x;

  KernelCost multiply{.name = "muon, products", .unit = unit_of_products(t), .launches = 0};
  for (const MatMulShape& s : products(g, n, DeviceKind::cuda)) {
    multiply.flops += product_flops(s);
    multiply.launches += 1;
  }
  // An iteration's: A = X X^T, A A, and a polynomial of A times X. A is made in fp32. An array that is both factors
  // is read once.
  multiply.bytes = (3 * elements * x) * iterations + (8 + 2 * x) * squares;
  Cost total;
  total.kernels = {{"muon, momentum", Unit::fma, 9 * elements, 12 * elements, 2 * count},  // and the norm
                   {"muon, normalize", Unit::fma, 5 * elements, (8 + x) * elements, count},
                   multiply,
                   {"muon, polynomial", Unit::fma, 4 * squares, (4 + 2 * x) * squares, iterations * count},
                   {"muon, update", Unit::fma, 5 * elements, (8 + x + copy) * elements, count}};
  if (t != DType::f32) {
    total.kernels.push_back({"muon, round", Unit::fma, 0, (4 + x) * squares, iterations * count});
  }
  total.flops = total.kernel_flops();
  return total;
}

}  // namespace

const OpDef kMuon{.name = "muon",
                  .text = text,
                  .infer = infer,
                  .cost = cost,
                  .products = products,
                  .cpu = {prepare<CpuKernels>, workspace<DeviceKind::cpu>},
                  .cuda = {prepare<CudaKernels>, workspace<DeviceKind::cuda>}};

}  // namespace genesis::ops

// The output layer and the cross-entropy as one op, so that logits exist for one chunk of tokens at a time.
// With a gradient, the chunk's logits become their own gradient and are used up at once: they are never
// computed twice. That works because nothing but the sum of losses itself depends on the loss.
#include "engine/ops/head_loss.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/core/align.h"
#include "engine/ops/differentiator.h"
#include "engine/ops/helpers.h"
#include "engine/ops/product.h"
#include "kernels/common/block_count.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/matmul/matmul.h"

namespace genesis::ops {
namespace {

std::string text(const Node& n) {
  const auto& a = attrs_of<HeadLossAttrs>(n);
  std::string s;
  const auto say = [&](const std::string& what) { s += (s.empty() ? "" : " ") + what; };
  if (a.chunk > 0) say(fmt::format("chunk={}", a.chunk));
  if (a.z_loss > 0) say(fmt::format("z_loss={:g}", a.z_loss));
  if (a.with_gradient) say("with_gradient");
  return s;
}

// in: x [rows, D], weight [V, D], targets; into: loss_and_count, a LossSum
// With a gradient also into: d_weight -> d_x
std::vector<ValueType> infer(const Graph& g, const Node& n) {
  const auto& attrs = attrs_of<HeadLossAttrs>(n);
  const Value &x = input(g, n, 0), &weight = input(g, n, 1), &targets = input(g, n, 2);
  check_input(x.shape.rank() == 2 && weight.shape.rank() == 2 && x.shape[1] == weight.shape[1], g, n,
              "x [rows, D] and a weight [V, D]");
  check_input(targets.dtype == DType::i32 && targets.shape.elements() == x.shape[0], g, n,
              "a target i32 a row");
  require(attrs.chunk >= 0, "head_loss has no negative chunk size");
  check_into(g, n, 0, {{kLossSumFloats}, DType::f32});
  if (!attrs.with_gradient) return {};
  check_into(g, n, 1, {weight.shape, DType::f32});
  return {type_of(x)};
}

void grad(Differentiator& d, NodeId id) {
  const ValueId x = d.node(id).in[0], weight = d.node(id).in[1];
  const ValueId buffer = d.gradient_buffer(weight);
  const Value v = d.graph().value(x);
  const ValueId dx = d.graph().add_value({d.grad_name(x), v.shape, v.dtype, Role::activation, kNone});
  Node& n = d.graph().nodes[size_t(id)];
  attrs_of<HeadLossAttrs>(n).with_gradient = true;
  n.into.push_back(buffer);
  n.out = {dx};
  d.contribute(x, dx);
}

// How a device takes the logits: of so many tokens at a time, and in this type.
struct Logits {
  int64_t chunk = 0;
  DType dtype = DType::f32;
};

Logits logits_on(DeviceKind kind, const Graph& g, const Node& n) {
  const Value& x = input(g, n, 0);
  const int64_t V = input(g, n, 1).shape[0];
  Logits logits;
  if (kind == DeviceKind::cpu) {
    // About four million, so that they stay in cache and the products are still large.
    logits.chunk = std::clamp<int64_t>((int64_t(1) << 22) / V / 64 * 64, 768, 4096);
  } else {
    // In x's type: 2,048 rows of bf16 take less memory than 768 of fp32 logits and bf16 gradients, and as many make
    // the weight's gradient wait for its operations and not for its bytes (docs/performance.md, "The output layer").
    logits = {4096 / int64_t(size_of(x.dtype)), x.dtype};
  }
  const int chunk = attrs_of<HeadLossAttrs>(n).chunk;
  logits.chunk = std::min<int64_t>(chunk > 0 ? chunk : logits.chunk, x.shape[0]);
  return logits;
}

// All chunks but perhaps the last have as many rows; that one may have fewer.
std::vector<int64_t> chunk_sizes(DeviceKind kind, const Graph& g, const Node& n) {
  const int64_t most = logits_on(kind, g, n).chunk, last = input(g, n, 0).shape[0] % most;
  return last == 0 ? std::vector{most} : std::vector{most, last};
}

// The products of a chunk: logits = x weight^T; with a gradient also d_x = d_logits weight and
// d_weight += d_logits^T x.
std::vector<MatMulShape> chunk_products(DeviceKind kind, const Graph& g, const Node& n, int64_t rows) {
  const int64_t V = input(g, n, 1).shape[0], D = input(g, n, 1).shape[1];
  const DType t = input(g, n, 0).dtype;
  std::vector<MatMulShape> products{
      {.M = rows, .N = V, .K = D, .transpose_b = true, .a = t, .b = t, .c = logits_on(kind, g, n).dtype}};
  if (attrs_of<HeadLossAttrs>(n).with_gradient) {
    products.push_back({.M = rows, .N = D, .K = V, .a = t, .b = t, .c = t});
    products.push_back({.M = V,
                        .N = D,
                        .K = rows,
                        .transpose_a = true,
                        .a = t,
                        .b = t,
                        .c = DType::f32,
                        .accumulate = true});
  }
  return products;
}

// How a chunk's arrays lie in the workspace, in bytes. The logits come first, and their gradient, which is of x's
// type, takes their place if the types agree.
struct Layout {
  size_t d_logits, row_loss, cross_entropy, product, end;
};

Layout layout(DeviceKind kind, const Graph& g, const Node& n) {
  const Logits logits = logits_on(kind, g, n);
  const size_t count = size_t(logits.chunk) * size_t(input(g, n, 1).shape[0]);
  const bool apart = attrs_of<HeadLossAttrs>(n).with_gradient && logits.dtype != input(g, n, 0).dtype;
  Layout l;
  l.row_loss = aligned(count * size_of(logits.dtype));
  l.d_logits = apart ? l.row_loss : 0;
  if (apart) l.row_loss += aligned(count * size_of(input(g, n, 0).dtype));
  l.cross_entropy = l.row_loss + aligned(size_t(logits.chunk) * sizeof(float));
  l.product = l.cross_entropy;
  if (kind == DeviceKind::cpu) l.product += aligned(cpu::cross_entropy_workspace(input(g, n, 1).shape[0]));
  size_t product = 0;  // one at a time
  for (const int64_t chunk : chunk_sizes(kind, g, n)) {
    for (const MatMulShape& s : chunk_products(kind, g, n, chunk)) {
      product = std::max(product, product_workspace(s, kind));
    }
  }
  l.end = l.product + product;
  return l;
}

struct Chunk {
  CrossEntropy loss;
  std::vector<Product> products;  // as chunk_products lists them
};

Chunk make_chunk(const BoundNode& b, int64_t rows) {
  const auto& attrs = b.attrs<HeadLossAttrs>();
  CrossEntropy loss;
  loss.rows = rows;
  loss.V = loss.stride = b.in_value(1).shape[0];
  loss.logits_dtype = logits_on(b.device.kind(), b.graph, b.node).dtype;
  loss.d_logits_dtype = b.in_value(0).dtype;
  loss.z_loss = attrs.z_loss;
  loss.logits = b.workspace;
  loss.loss_and_count = as<LossSum>(b.into[0]);
  const Layout at = layout(b.device.kind(), b.graph, b.node);
  if (attrs.with_gradient) loss.d_logits = as<char>(b.workspace) + at.d_logits;
  loss.row_loss = as<float>(as<char>(b.workspace) + at.row_loss);
  loss.workspace = as<char>(b.workspace) + at.cross_entropy;
  Chunk chunk{loss, {}};
  for (const MatMulShape& shape : chunk_products(b.device.kind(), b.graph, b.node, rows)) {
    chunk.products.push_back(prepare_product(shape, b.device));
  }
  return chunk;
}

template <auto cross_entropy>
Run prepare(const BoundNode& b) {
  const bool with_gradient = b.attrs<HeadLossAttrs>().with_gradient;
  const int64_t rows = b.in_value(0).shape[0];
  const std::vector<int64_t> sizes = chunk_sizes(b.device.kind(), b.graph, b.node);
  const int64_t most = sizes.front();
  const int64_t row_bytes = b.in_value(0).shape[1] * int64_t(size_of(b.in_value(0).dtype));
  auto whole = std::make_shared<Chunk>(make_chunk(b, most));
  auto last = sizes.size() == 1 ? whole : std::make_shared<Chunk>(make_chunk(b, sizes.back()));
  void* scratch = as<char>(b.workspace) + layout(b.device.kind(), b.graph, b.node).product;
  const char* x = as<char>(b.in[0]);
  const void* weight = b.in[1];
  const int32_t* targets = as<int32_t>(b.in[2]);
  char* d_x = with_gradient ? as<char>(b.out[0]) : nullptr;
  void* d_weight = with_gradient ? b.into[1] : nullptr;
  return [=](Stream stream) {
    for (int64_t first = 0; first < rows; first += most) {
      const Chunk& chunk = first + most <= rows ? *whole : *last;
      CrossEntropy loss = chunk.loss;
      loss.targets = targets + first;
      const char* chunk_x = x + first * row_bytes;
      chunk.products[0](chunk_x, weight, const_cast<void*>(loss.logits), scratch, stream);
      start(cross_entropy, loss, stream);
      if (with_gradient) {
        chunk.products[1](loss.d_logits, weight, d_x + first * row_bytes, scratch, stream);
        chunk.products[2](loss.d_logits, chunk_x, d_weight, scratch, stream);
      }
    }
  };
}

template <DeviceKind kind>
size_t workspace(const Graph& g, const Node& n) {
  return layout(kind, g, n).end;
}

std::vector<MatMulShape> products(const Graph& g, const Node& n, DeviceKind kind) {
  std::vector<MatMulShape> all;
  const int64_t rows = input(g, n, 0).shape[0], most = logits_on(kind, g, n).chunk;
  for (int64_t first = 0; first < rows; first += most) {
    const auto chunk = chunk_products(kind, g, n, std::min(most, rows - first));
    all.insert(all.end(), chunk.begin(), chunk.end());
  }
  return all;
}

// Each chunk's products, and the cross-entropy's pass over its logits.
Cost cost(const Graph& g, const Node& n) {
  const bool with_gradient = attrs_of<HeadLossAttrs>(n).with_gradient;
  const Value &x = input(g, n, 0), &targets = input(g, n, 2);
  const double count = double(x.shape[0]) * double(input(g, n, 1).shape[0]);
  const Logits logits = logits_on(DeviceKind::cuda, g, n);
  const auto chunks = double(block_count(x.shape[0], logits.chunk));

  KernelCost products_cost{.name = "head_loss, products", .unit = unit_of_products(x.dtype), .launches = 0};
  for (const MatMulShape& s : products(g, n, DeviceKind::cuda)) {
    products_cost.flops += product_flops(s);
    products_cost.bytes += product_bytes(s);
    products_cost.launches += 1;
  }
  const KernelCost loss{
      .name = "head_loss, cross-entropy",
      .flops = 8 * count,
      .bytes = double(targets.bytes()) + (with_gradient ? 2 : 1) * count * double(size_of(logits.dtype)),
      .launches = 2 * chunks};  // and the sum of its rows' losses
  Cost total{.flops = products_cost.flops, .kernels = {products_cost, loss}};
  if (with_gradient) total.backward_flops = total.flops / 3 * 2;  // two of a chunk's three products
  return total;
}

}  // namespace

const OpDef kHeadLoss{.name = "head_loss",
                      .text = text,
                      .infer = infer,
                      .grad = grad,
                      .cost = cost,
                      .products = products,
                      .cpu = {prepare<cpu::cross_entropy>, workspace<DeviceKind::cpu>},
                      .cuda = {prepare<cuda::cross_entropy>, workspace<DeviceKind::cuda>},
                      .loss = true};

}  // namespace genesis::ops

// The optimizer's nodes on their own: gradients are written, and the update phase is run.
#include "optim/optimizer.h"

#include "engine/passes/differentiate.h"
#include "engine/runtime/executable.h"
#include "engine/runtime/parameters.h"
#include "kernels/common/random.h"
#include "kernels/cross_entropy/loss_sum.h"
#include "tests/engine/small_graph.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;

namespace {

struct Update {
  std::unique_ptr<Device> device = make_cpu_device();
  Storage storage{*device};
  AdamWOptimizer optimizer{{}};
  std::unique_ptr<Executable> executable;

  Update(DType dtype, const std::vector<TrainedParameter>& trained) {
    SmallGraph g(1, 4, dtype);
    differentiate(g.graph);
    append_optimizer(g.graph, g.loss_and_count, 1, optimizer, trained);
    executable = std::make_unique<Executable>(g.graph, storage);
    const LossSum sum{1, 10};
    storage.write("loss_and_count", &sum, sizeof sum);
    uint64_t stream = 0;
    for (const Role role : {Role::gradient, Role::parameter}) {
      for (const auto* array : storage.with_role(role)) {
        std::vector<float> values(size_t(array->value.shape.elements()));
        fill_normal(values.data(), int64_t(values.size()), 1, ++stream, 0, 1);
        write(array->value, values);
      }
    }
  }

  // An array's numbers in its own type; a parameter's master, where it has one of all its elements, too.
  void write(const Value& v, const std::vector<float>& values) {
    if (v.role == Role::gradient) {
      storage.write(v.name, values.data(), v.bytes());
    } else {
      set_parameter(storage, v.name, values);
    }
  }

  void step(int64_t number) {
    optimizer.write_step(storage, 0.1, number);
    executable->run(Phase::update);
  }

  template <class T = char>
  std::vector<T> read(const std::string& name) const {
    std::vector<T> values(storage.find(name)->value.bytes() / sizeof(T));
    storage.read(name, values.data(), values.size() * sizeof(T));
    return values;
  }
};

// The first or second part of each parameter, those that are too small for two left to the first.
std::vector<TrainedParameter> half(const Graph& graph, int which) {
  std::vector<TrainedParameter> trained;
  for (TrainedParameter t : all_trained(graph)) {
    const int64_t n = graph.value(graph.at(t.parameter)).shape.elements(), middle = (n / 2 + 7) / 8 * 8;
    t.begin = which == 0 ? 0 : middle;
    t.count = which == 0 ? middle : n - middle;
    if (t.count > 0) trained.push_back(t);
  }
  return trained;
}

}  // namespace

TEST_CASE(
    "optimizer: slices of the state update their parts as the whole does, to the bit, and nothing else") {
  const SmallGraph g(1, 4, DType::f32);
  Update whole(DType::f32, all_trained(g.graph));
  Update ranks[2] = {{DType::f32, half(g.graph, 0)}, {DType::f32, half(g.graph, 1)}};
  std::map<std::string, std::vector<float>> before;
  for (const TrainedParameter& t : all_trained(g.graph)) before[t.parameter] = whole.read<float>(t.parameter);
  for (int step = 1; step <= 3; ++step) {
    for (Update* u : {&whole, &ranks[0], &ranks[1]}) u->step(step);
  }
  size_t state = 0;
  for (const int which : {0, 1}) {
    for (const TrainedParameter& t : half(g.graph, which)) {
      INFO(t.parameter << " from " << t.begin);
      std::vector<float> expected = before.at(t.parameter);
      const auto updated = whole.read<float>(t.parameter);
      CHECK(updated != expected);
      std::copy_n(updated.begin() + t.begin, t.count, expected.begin() + t.begin);
      CHECK(ranks[which].read<float>(t.parameter) == expected);
      for (const char* moment : {".m", ".v"}) {
        const auto all = whole.read<float>(t.parameter + moment);
        const std::vector<float> part(all.begin() + t.begin, all.begin() + t.begin + t.count);
        CHECK(ranks[which].read<float>(t.parameter + moment) == part);
        state += part.size();
      }
    }
  }
  size_t all = 0;
  for (const auto& [name, values] : before) all += 2 * values.size();
  CHECK(state == all);
}

TEST_CASE("optimizer: a slice has its own part of the masters, and rounds it into its part of the copies") {
  SmallGraph g(1, 4, DType::bf16);
  differentiate(g.graph);
  append_optimizer(g.graph, g.loss_and_count, 1, AdamWOptimizer({}), half(g.graph, 1));
  std::unique_ptr<Device> device = make_cpu_device();
  Storage storage(*device);
  Executable executable(g.graph, storage);
  const int64_t n = g.graph.value(g.embed).shape.elements(), begin = n / 2;
  REQUIRE(g.graph.value(g.graph.at("master.embed.weight")).shape == Shape{n - begin});
  const std::vector<float> master(size_t(n - begin), 3.25f), gradient(size_t(n), 1.f);
  storage.write("master.embed.weight", master.data(), master.size() * sizeof(float));
  storage.write("d.embed.weight", gradient.data(), gradient.size() * sizeof(float));
  const LossSum sum{1, 1};
  storage.write("loss_and_count", &sum, sizeof sum);
  AdamWOptimizer({}).write_step(storage, 0.25, 1);
  executable.run(Phase::update);
  std::vector<uint16_t> copy(static_cast<size_t>(n));
  storage.read("embed.weight", copy.data(), copy.size() * sizeof(uint16_t));
  for (int64_t i = 0; i < begin; ++i) REQUIRE(copy[size_t(i)] == 0);
  for (int64_t i = begin; i < n; ++i) REQUIRE(copy[size_t(i)] != 0);
}

TEST_CASE("optimizer: a slice that is not inside its parameter, or is not aligned, is refused") {
  const auto refused = [](int64_t begin, int64_t count) {
    SmallGraph g;
    differentiate(g.graph);
    return message_of([&] {
      append_optimizer(g.graph, g.loss_and_count, 1, AdamWOptimizer({}),
                       {{"embed.weight", true, begin, count}});
    });
  };
  CHECK(refused(8, 120) == "");
  const std::string expected = "expected a slice that begins at a multiple of 8 and ends inside its gradient";
  CHECK(lacks(refused(8, 121), expected) == "");
  CHECK(lacks(refused(4, 100), expected) == "");
  CHECK(lacks(refused(-8, 100), expected) == "");
}

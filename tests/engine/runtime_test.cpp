#include "engine/core/align.h"
#include "engine/passes/differentiate.h"
#include "engine/runtime/executable.h"
#include "engine/runtime/parameters.h"
#include "kernels/cross_entropy/loss_sum.h"
#include "tests/engine/small_graph.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;

namespace {

// The CPU's memory under another name, counted.
class CountingDevice final : public Device {
 public:
  int held = 0, copies_in = 0;
  size_t bytes = 0;

  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string name() const override { return "counting"; }
  void* allocate(size_t n) override {
    ++held;
    bytes += n;
    return cpu_->allocate(n);
  }
  void release(void* p) override {
    --held;
    cpu_->release(p);
  }
  void copy_in(void* to, const void* from, size_t n) override {
    ++copies_in;
    cpu_->copy_in(to, from, n);
  }
  void copy_out(void* to, const void* from, size_t n) override { cpu_->copy_out(to, from, n); }
  std::unique_ptr<QueuedCopy> make_queued_copy(size_t n) override { return cpu_->make_queued_copy(n); }
  Stream stream() override { return {}; }
  size_t total_memory() const override { return cpu_->total_memory(); }

 private:
  std::unique_ptr<Device> cpu_ = make_cpu_device();
};

}  // namespace

TEST_CASE("device: memory is zero, aligned and refused beyond what the machine has") {
  std::unique_ptr<Device> device = make_cpu_device();
  for (const size_t bytes : {size_t(1), size_t(300), size_t(3) << 20}) {
    DeviceBuffer buffer(*device, bytes);
    CHECK(buffer.bytes() == bytes);
    CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % 256 == 0);
    const char* data = static_cast<const char*>(buffer.data());
    CHECK(std::all_of(data, data + bytes, [](char c) { return c == 0; }));
  }
  const std::string message = message_of([&] { device->allocate(size_t(1) << 55); });
  CHECK(lacks(message, "not enough memory: 34359738368.0 MiB wanted in one piece, this machine has ") == "");
}

TEST_CASE("device: a buffer is released once, and moves") {
  CountingDevice device;
  {
    DeviceBuffer a(device, 100), b(device, 200);
    CHECK(device.held == 2);
    DeviceBuffer c(std::move(a));
    CHECK(c.bytes() == 100);
    c = std::move(b);
    CHECK(c.bytes() == 200);
    c = DeviceBuffer();
    CHECK(c.data() == nullptr);
  }
  CHECK(device.held == 0);
}

TEST_CASE("storage: graphs share what has one name") {
  CountingDevice device;
  {
    Storage storage(device);
    const auto bind = [&](const std::vector<Value>& values) { storage.bind(values); };
    const Value v{"x", {2, 3}, DType::f32, Role::parameter, kNone};
    bind({v, {"passing", {7}, DType::f32, Role::activation, kNone}});
    void* p = storage.find("x")->data;
    CHECK(storage.find("passing") == nullptr);
    bind({v});
    CHECK(storage.find("x")->data == p);
    CHECK(device.held == 1);
    Value other = v;
    other.shape = {3, 2};
    CHECK(message_of([&] {
            bind({{"y", {6}, DType::f32, Role::input, kNone}, other});
          }) == "'x' is f32[2, 3] in one graph and f32[3, 2] in another");
    other = v;
    other.dtype = DType::bf16;
    CHECK(message_of([&] { bind({other}); }) == "'x' is f32[2, 3] in one graph and bf16[2, 3] in another");

    const float values[6] = {1, 2, 3, 4, 5, 6};
    storage.write("x", values, sizeof values);
    float back[6] = {};
    storage.read("x", back, sizeof back);
    CHECK(std::equal(values, values + 6, back));
    CHECK(message_of([&] { storage.write("x", values, 20); }) == "'x' has 24 bytes, not 20");
    CHECK(message_of([&] { storage.read("x", back, 28); }) == "'x' has 24 bytes, not 28");
    CHECK(message_of([&] { storage.write("y", values, 24); }) == "there is no array named 'y'");
    // One block for all that is new, each array aligned in it.
    bind({v,
          {"b", {5}, DType::bf16, Role::parameter, kNone},
          {"a", {1}, DType::i32, Role::input, kNone},
          {"c", {65}, DType::f32, Role::input, kNone}});
    CHECK(device.held == 2);
    const auto* b = static_cast<const char*>(storage.find("b")->data);
    CHECK(reinterpret_cast<uintptr_t>(b) % 256 == 0);
    CHECK(storage.find("a")->data == b + 256);
    CHECK(storage.find("c")->data == b + 512);
    CHECK(std::all_of(b, b + 1024, [](char c) { return c == 0; }));
    CHECK(storage.find("x")->data == p);
    REQUIRE(storage.with_role(Role::parameter).size() == 2);
    CHECK(storage.with_role(Role::parameter)[0]->value.name == "b");  // sorted
    CHECK(storage.with_role(Role::cache).empty());
    CHECK(storage.bytes() == 256 + 1024);
    storage.reserve_arena(100);
    CHECK(storage.bytes() == 256 + 1024 + 100);
  }
  CHECK(device.held == 0);
}

TEST_CASE("storage: the arena grows, and never holds two pieces") {
  CountingDevice device;
  Storage storage(device);
  storage.reserve_arena(1000);
  CHECK(storage.arena_bytes() == 1000);
  void* arena = storage.arena();
  storage.reserve_arena(500);
  CHECK(storage.arena() == arena);
  storage.reserve_arena(2000);
  CHECK(storage.arena_bytes() == 2000);
  CHECK(device.held == 1);
}

TEST_CASE("executable: what is prepared is not prepared again until the arena moves") {
  CountingDevice device;
  Storage storage(device);
  SmallGraph g;
  differentiate(g.graph);
  append_adamw(g);  // its tables are copied in when it is prepared
  Executable executable(g.graph, storage);
  CHECK(device.copies_in == 0);
  executable.prepare();
  const int tables = device.copies_in;
  CHECK(tables == 2);
  executable.prepare();
  for (const Phase phase : {Phase::begin, Phase::micro, Phase::update}) executable.run(phase);
  CHECK(device.copies_in == tables);
  DeviceBuffer in_the_way(device, storage.arena_bytes());
  void* before = storage.arena();
  storage.reserve_arena(4 * storage.arena_bytes());
  REQUIRE(storage.arena() != before);
  executable.run(Phase::begin);
  CHECK(device.copies_in == 2 * tables);
}

TEST_CASE("executable: nothing is allocated during a run") {
  CountingDevice device;
  Storage storage(device);
  SmallGraph g;
  differentiate(g.graph);
  Executable executable(g.graph, storage);
  const int held = device.held;
  const size_t bytes = device.bytes;
  for (int i = 0; i < 3; ++i) executable.run(Phase::micro);
  CHECK(device.held == held);
  CHECK(device.bytes == bytes);
  CHECK(storage.arena_bytes() == executable.memory().bytes);
}

TEST_CASE("a node's table is refused when it is longer than the memory that was planned for it") {
  CountingDevice device;
  SmallGraph g;
  differentiate(g.graph);
  append_adamw(g);
  int with_constants = 0;
  for (const Node& node : g.graph.nodes) {
    const size_t planned = constants_of(g.graph, node);
    with_constants += planned > 0;
    std::vector<char> constants(planned + 1, 'x'), table(planned, 'y');
    const BoundNode bound{.graph = g.graph,
                          .node = node,
                          .device = device,
                          .in = {},
                          .out = {},
                          .into = {},
                          .constants = constants.data()};
    CHECK(bound.upload(table) == constants.data());
    table.push_back('z');
    CHECK(lacks(message_of([&] { bound.upload(table); }), "a node's table is no longer than its constants") ==
          "");
    CHECK(constants.back() == 'x');
  }
  CHECK(with_constants == 2);
}

TEST_CASE("executable: a device is asked for what the plan says, and for nothing else") {
  CountingDevice device;
  Storage storage(device);
  SmallGraph g;
  differentiate(g.graph);
  append_adamw(g);
  Executable executable(g.graph, storage);
  size_t persistent = 0;
  for (const Value& v : g.graph.values) persistent += v.role == Role::activation ? 0 : aligned(v.bytes());
  const MemoryPlan plan = plan_memory(g.graph, DeviceKind::cpu);
  REQUIRE(plan.constant_bytes > 0);
  for (const Phase phase : {Phase::begin, Phase::micro, Phase::update}) executable.run(phase);
  CHECK(device.bytes == persistent + plan.bytes + plan.constant_bytes);
}

TEST_CASE("executable: a graph that breaks a rule is refused") {
  std::unique_ptr<Device> device = make_cpu_device();
  Storage storage(*device);
  SmallGraph g;
  std::swap(g.graph.nodes[1], g.graph.nodes[2]);
  CHECK(lacks(message_of([&] { Executable(g.graph, storage); }), "before it is assigned") == "");
}

TEST_CASE("executable: graphs in one storage take turns in the arena, which may move between runs") {
  std::unique_ptr<Device> device = make_cpu_device();
  Storage storage(*device);
  SmallGraph small(1, 4);
  Executable first(small.graph, storage);
  const auto losses = [&](Executable& e) {
    LossSum sum;
    storage.write("loss_and_count", &sum, sizeof sum);
    e.run(Phase::micro);
    storage.read("loss_and_count", &sum, sizeof sum);
    return std::pair(sum.loss, sum.count);
  };
  for (const auto* array : storage.with_role(Role::parameter)) {
    std::vector<float> values(size_t(array->value.shape.elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(float(i));
    set_parameter(storage, array->value.name, values);
  }
  const int32_t targets[4] = {3, -1, 5, 0};
  storage.write("targets", targets, sizeof targets);
  const auto alone = losses(first);
  CHECK(alone.second == 3);
  CHECK(alone.first > 0);

  // A larger graph moves the arena under the first one.
  SmallGraph large(6, 4);
  differentiate(large.graph);
  void* before = storage.arena();
  Executable second(large.graph, storage);
  DeviceBuffer in_the_way(*device, size_t(1) << 16);
  CHECK(storage.arena_bytes() > first.memory().bytes);
  const auto deeper = losses(second);
  CHECK(deeper.first != alone.first);
  CHECK(losses(first) == alone);
  CHECK(losses(second) == deeper);
  (void)before;
}

TEST_CASE("executable: nodes are timed when asked") {
  std::unique_ptr<Device> device = make_cpu_device();
  Storage storage(*device);
  SmallGraph g;
  Executable executable(g.graph, storage);
  executable.run(Phase::micro);
  CHECK(executable.node_seconds().empty());
  executable.time_nodes(true);
  for (int i = 0; i < 20; ++i) executable.run(Phase::micro);
  REQUIRE(executable.node_seconds().size() == g.graph.nodes.size());
  for (double s : executable.node_seconds()) CHECK(s > 0);
  executable.time_nodes(false);
  CHECK(executable.node_seconds().empty());
}

TEST_CASE("shape: sizes, rows and text") {
  const Shape s{2, 3, 4};
  CHECK(s.rank() == 3);
  CHECK(s.elements() == 24);
  CHECK(s.rows() == 6);
  CHECK(s[0] == 2);
  CHECK(s[-1] == 4);
  CHECK(s.to_string() == "[2, 3, 4]");
  CHECK(Shape{}.elements() == 1);
  CHECK(Shape{}.rows() == 1);
  CHECK(Shape{}.to_string() == "[]");
  CHECK(!(Shape{2, 3} == Shape{3, 2}));
  CHECK(!(Shape{2} == Shape{2, 1}));
}

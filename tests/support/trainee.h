// A model on the CPU device with everything that training needs, and a step that reads as the trainer's does.
#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/passes/differentiate.h"
#include "engine/passes/recompute.h"
#include "engine/runtime/executable.h"
#include "engine/runtime/parameters.h"
#include "kernels/common/bf16.h"
#include "kernels/common/error.h"
#include "model/decoder.h"
#include "model/parameters.h"
#include "optim/optimizer.h"
#include "tests/support/tiny_model.h"

namespace genesis {

struct TraineeOptions {
  DType dtype = DType::f32;
  RecomputePolicy recompute = RecomputePolicy::none;
  size_t budget = 0;
  Config::Optim optim = {};
  std::unique_ptr<Device> (*device)() = make_cpu_device;
};

class Trainee {
 public:
  Trainee(const Config::Model& model, const BatchShape& shape, int64_t recurrence,
          const TraineeOptions& options = {})
      : device_(options.device()), storage_(*device_), optimizer_(make_optimizer(options.optim)) {
    Graph graph = build_loss_graph(model, shape, options.dtype, recurrence);
    differentiate(graph);
    std::vector<Trained> trained;
    for (const Parameter& p : genesis::parameters(model)) {
      trained.push_back({.parameter = p.name, .decay = p.decay, .matrices = layer_matrices(p)});
    }
    append_optimizer(graph, graph.at(kLossAndCount), options.optim.clip_norm, *optimizer_, trained);
    plan_ = recompute(graph, options.recompute, device_->kind(), options.budget);
    executable_ = std::make_unique<Executable>(std::move(graph), storage_);
  }

  Storage& storage() { return storage_; }
  const Executable& executable() const { return *executable_; }
  const RecomputePlan& recompute_plan() const { return plan_; }

  std::vector<std::string> parameters() const {
    std::vector<std::string> names;
    for (const auto* array : storage_.with_role(Role::parameter)) names.push_back(array->value.name);
    return names;
  }

  // Random weights by the parameters' names: models with the same names and seed get the same.
  void set_random_weights(uint64_t seed) {
    for (const auto* array : storage_.with_role(Role::parameter)) {
      const Shape& s = array->value.shape;
      uint64_t stream = 0;
      for (char c : array->value.name) stream = stream * 131 + uint8_t(c);
      set_parameter(storage_, array->value.name, random_weights(s.rows(), s[-1], seed, stream));
    }
  }

  void begin() { executable_->run(Phase::begin); }

  void micro(const TokenBatch& batch) {
    for (const auto& [name, values] :
         {std::pair{kTokens, &batch.tokens}, {kTargets, &batch.targets}, {kPositions, &batch.positions}}) {
      storage_.write(name, values->data(), values->size() * sizeof(int32_t));
    }
    executable_->run(Phase::micro);
  }

  // `number` counts from 1.
  void update(float lr, int number) {
    optimizer_->write_step(storage_, lr, number);
    executable_->run(Phase::update);
  }

  void step(const std::vector<TokenBatch>& batches, float lr, int number) {
    begin();
    for (const TokenBatch& batch : batches) micro(batch);
    update(lr, number);
  }

  // An array's numbers, whatever its type.
  std::vector<double> read(const std::string& name) const {
    const std::vector<char> raw = bytes(name);
    const Value& v = storage_.find(name)->value;
    std::vector<double> values(size_t(v.shape.elements()));
    for (size_t i = 0; i < values.size(); ++i) {
      if (v.dtype == DType::bf16) {
        bf16 x;
        std::memcpy(&x, &raw[i * sizeof x], sizeof x);
        values[i] = double(float(x));
      } else {
        float x;
        std::memcpy(&x, &raw[i * sizeof x], sizeof x);
        values[i] = double(x);
      }
    }
    return values;
  }

  // An array's bits.
  std::vector<char> bytes(const std::string& name) const {
    const Storage::Array* array = storage_.find(name);
    check(array != nullptr, "no array named " + name);
    std::vector<char> raw(array->value.bytes());
    storage_.read(name, raw.data(), raw.size());
    return raw;
  }

  // The bits of everything of these roles, by name.
  std::map<std::string, std::vector<char>> bits(const std::vector<Role>& roles) const {
    std::map<std::string, std::vector<char>> all;
    for (Role role : roles) {
      for (const auto* array : storage_.with_role(role)) all[array->value.name] = bytes(array->value.name);
    }
    return all;
  }

  // What the model computes with, in double.
  std::map<std::string, std::vector<double>> weights() const {
    std::map<std::string, std::vector<double>> all;
    for (const std::string& name : parameters()) all[name] = read(name);
    return all;
  }

  LossSum sum() const {
    LossSum sum;
    storage_.read(kLossAndCount, &sum, sizeof sum);
    return sum;
  }
  double loss() const { return sum().total_loss(); }
  double count() const { return sum().total_count(); }

 private:
  std::unique_ptr<Device> device_;
  Storage storage_;
  std::unique_ptr<Optimizer> optimizer_;
  RecomputePlan plan_;
  std::unique_ptr<Executable> executable_;
};

}  // namespace genesis

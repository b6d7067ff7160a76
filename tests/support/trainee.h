// A model on a device with everything that training needs, and a step that is the trainer's.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/train/training_graph.h"
#include "apps/train/training_step.h"
#include "engine/runtime/parameters.h"
#include "kernels/common/bf16.h"
#include "kernels/common/error.h"
#include "model/decoder.h"
#include "tests/support/tiny_model.h"

namespace genesis {

struct TraineeOptions {
  DType dtype = DType::f32;
  Config::Recompute recompute = Config::Recompute::none;
  size_t budget = 0;  // of the activations, for the automatic choice
  Config::Optim optim = {};
  std::unique_ptr<Device> (*device)() = make_cpu_device;
};

class Trainee {
 public:
  Trainee(const Config::Model& model, const BatchShape& shape, int64_t recurrence,
          const TraineeOptions& options = {})
      : device_(options.device()), storage_(*device_), recurrence_(recurrence) {
    Config config;
    config.model = model;
    config.model.recurrence.steps = recurrence;
    config.data.sequence_length = shape.T;
    config.data.document_mask = shape.document_mask;
    config.train.micro_batch = shape.B;
    config.optim = options.optim;
    config.train.recompute = Config::Recompute::none;
    Target target{.dtype = options.dtype,
                  .device = device_->kind(),
                  .rates = &rates_of(device_->kind(), device_->name())};
    target.memory = persistent_bytes(build_training_graph(config, target).graph) + options.budget;
    config.train.recompute = options.recompute;
    TrainingGraph training = build_training_graph(config, target);
    plan_ = training.recompute;
    step_.emplace(std::map<int64_t, Graph>{{recurrence, std::move(training.graph)}}, options.optim, storage_);
  }

  Storage& storage() { return storage_; }
  TrainingStep& training_step() { return *step_; }
  const Executable& executable() { return step_->executable(recurrence_); }
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

  void begin() { step_->begin(); }
  void micro(const Batch& batch) { step_->micro(batch, recurrence_); }
  // `number` counts from 1.
  StepResult update(float lr, int number) {
    step_->update(lr, number);
    return step_->result();
  }

  StepResult step(const std::vector<TokenBatch>& batches, float lr, int number) {
    begin();
    for (const TokenBatch& batch : batches) micro(batch);
    return update(lr, number);
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
  const int64_t recurrence_;
  RecomputePlan plan_;
  std::optional<TrainingStep> step_;
};

}  // namespace genesis

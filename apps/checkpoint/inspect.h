// genesis_checkpoint: what checkpoints hold, whether they are whole, and how two of them differ.
#pragma once

#include <string>
#include <vector>

namespace genesis {

// The checkpoints that a user means: a checkpoint's folder is itself, a run's all of its own by step, broken ones too.
// Throws Error where there are none.
std::vector<std::string> checkpoints_named(const std::string& path);

// Counters, data, files; with `tensors` each one's name, type and shape. Throws Error if state.json can't be read.
std::string show_checkpoint(const std::string& checkpoint, bool tensors);

// All that is wrong with a checkpoint, by reading all of it: files that are missing, or not what they were written
// as, and tensors that are missing, too many, or of another type or shape than the model and the optimizer of its
// config have. Empty: nothing.
std::vector<std::string> problems_of_checkpoint(const std::string& checkpoint);

struct CheckpointDifference {
  bool same = true;  // in every number's bits; counters are not compared
  std::string text;  // for people
};

// Tensor by tensor, the largest difference of two numbers and the norms; and the counters and config fields that
// differ. Throws Error for a checkpoint that is damaged.
CheckpointDifference diff_checkpoints(const std::string& a, const std::string& b);

}  // namespace genesis

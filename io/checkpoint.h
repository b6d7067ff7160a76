// Checkpoints: the complete state of a run, in folders that describe themselves (docs/checkpoint.md).
//   RUN_DIR/checkpoints/step_00001000/model-00001-of-00001.safetensors  the parameters, as others read them
//                                     model.safetensors.index.json      which file holds which
//                                     config.json, ...                  what others want beside them
//                                     state-rank-0-of-1.safetensors     fp32 masters and the optimizer's moments
//                                     state.json  TrainState, and each file's size, checksum and tensors
// That is format 2. Format 1, which is read and no longer written: model.safetensors (masters by dotted name),
// optimizer.safetensors (moments), state.json.
// A checkpoint appears under its name in one step, after all of it is on disk: a crash or a kill at any
// moment leaves the ones that were complete before, and the new one whole or not at all. All failures are
// genesis::Error.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/dataset_identity.h"
#include "io/safetensors.h"

namespace genesis {

struct TrainState {
  int64_t step = 0;            // steps taken; the checkpoint's name
  int64_t optimizer_step = 0;  // steps applied: AdamW's t of the last one. step - bad_steps
  int64_t samples = 0;         // position in the data: global sample count
  int64_t tokens = 0;          // tokens seen
  int64_t bad_steps = 0;       // steps not applied for a non-finite loss or gradient
  int64_t bad_steps_in_a_row = 0;
  int64_t schedule_begin = 0;  // the step that the learning rate's schedule counts from
  uint64_t seed = 0;           // of every random stream; with the counts above, the whole random state
  std::string config;          // the run's config.yaml
  std::string tokenizer_hash;
  std::string dtype;  // what is computed with, "bf16"; empty: not known, of an older checkpoint
  std::vector<DatasetIdentity> data;  // what is trained on, as in data.train; empty: not known
  bool operator==(const TrainState&) const = default;
};

// What a checkpoint was written by, and on: for people who look at it. Nothing depends on it but `ranks`.
struct CheckpointOrigin {
  std::string program;     // `--version` of it: commit and libraries are in there
  std::string device;      // in words
  int64_t ranks = 1;       // N, of the files state-rank-R-of-N
  int64_t recurrence = 0;  // K that was trained at; 0: not noted
  bool operator==(const CheckpointOrigin&) const = default;
};

// What a rank holds of a tensor: `count` of its elements, row-major, from `begin` on.
struct TensorSlice {
  TensorView tensor;  // the whole one's name, type and shape; its data is the slice's
  int64_t begin = 0, count = 0;
};
std::vector<TensorSlice> whole_slices(std::span<const TensorView> tensors);

struct CheckpointFile {
  std::string name, content;
};

struct CheckpointContent {
  TrainState state;
  CheckpointOrigin origin;
  // Parameters in the type that is computed with, by the names that others use.
  std::vector<TensorView> weights;
  std::vector<TensorSlice> masters, moments;  // by our names; in the file a master's is "master.NAME"
  std::vector<CheckpointFile> files;          // config.json and the like
};

// Told what was found broken and passed over.
using Warn = std::function<void(const std::string&)>;

// Writes a checkpoint and returns its folder; Error, and nothing is changed, if a number in it is not finite. One of the same step is replaced; if that one can't be read it is
// kept beside it, as step_N.unreadable, which `warn` is told. What is left of an interrupted save is removed.
// One process at a time for a run: claim_run_dir (io/run_dir.h).
std::string save_checkpoint(const std::string& run_dir, const CheckpointContent& content, const Warn& warn);

// The whole checkpoint with the highest step; nothing where there is none at all. Whole: state.json is, and every file
// has the size and the checksum that it was written with, for which all of it is read. Broken ones are passed over,
// each with a warning. Error, with each one's reason, if there are some and none is whole, or the folder of them can't
// be listed.
std::optional<std::string> latest_checkpoint(const std::string& run_dir, const Warn& warn);

// For a run that goes on from `step`, and will save under the names of the checkpoints after it: those that are broken
// are kept under names that nothing removes or takes for a checkpoint's (step_N.unreadable), which `warn` is told.
void set_broken_aside(const std::string& run_dir, int64_t step, const Warn& warn);

// Why a checkpoint does not count among those to keep: it was saved while steps were being skipped, or, by an earlier
// version, with a number that is not finite. Empty: it counts.
std::string why_unsound(const std::string& checkpoint);

// A checkpoint from what a user names: a checkpoint's folder, or a run's folder for its latest one.
std::string find_checkpoint(const std::string& path, const Warn& warn);

TrainState read_checkpoint_state(const std::string& checkpoint);

// Fills the given tensors' memory, from the slices of all ranks. First everything is checked: the files' checksums,
// and that they hold exactly the given tensors, each with the given dtype and shape. On an Error, which lists what
// differs, no destination has been written.
void load_checkpoint(const std::string& checkpoint, std::span<const NamedTensor> masters,
                     std::span<const NamedTensor> moments);

// As load_checkpoint, for the parameters alone, in fp32 (a bf16 number is one). `by_others` are the tensors by the names
// that others use; `by_us`, by ours, is what a checkpoint of format 1 has. The two may share memory.
void load_checkpoint_weights(const std::string& checkpoint, std::span<const NamedTensor> by_others,
                             std::span<const NamedTensor> by_us);

// Removes checkpoints whose files have their sizes, except the `keep` sound ones with the highest steps, keep >= 1, the
// sound ones of multiples of `keep_every` steps (0: of none), the first sound one of the steps `best_first`, and the last
// unsound one if it is newer than all of them. Broken ones don't count and stay, for someone to look at.
void prune_checkpoints(const std::string& run_dir, int64_t keep, int64_t keep_every = 0,
                       std::span<const int64_t> best_first = {});

}  // namespace genesis

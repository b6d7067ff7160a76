// A run's folder, and the right to write into it.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace genesis {

// Held while a trainer writes into a run's folder; no other process can claim it meanwhile. The lock is the
// kernel's (flock on RUN_DIR/lock): it ends with the process, however that ends.
class RunClaim {
 public:
  RunClaim(RunClaim&&) noexcept;
  RunClaim& operator=(RunClaim&&) noexcept;
  ~RunClaim();  // a start that has failed takes back what it has made: the lock, new logs, folders

  // The run begins: writes config.yaml, and from here on everything stays.
  void begin();

 private:
  friend RunClaim claim_run_dir(const std::string&, const std::string&,
                                const std::function<std::string(const std::string&, const std::string&)>&);
  struct Start;
  explicit RunClaim(std::unique_ptr<Start> start);
  std::unique_ptr<Start> start_;
};

// Compares the config in the folder with the one to go on with: empty if they are of one run (fields such as
// train.steps may differ), else what differs, for the message.
using CompareConfigs = std::function<std::string(const std::string& held, const std::string& wanted)>;

// Creates the folder where needed and locks it, for a run whose config.yaml is to be `config`. Error, with nothing
// of the folder's changed, if it can't be written, another process holds it, it holds another run, or it holds
// checkpoints without a config.yaml.
RunClaim claim_run_dir(const std::string& run_dir, const std::string& config, const CompareConfigs& compare);

// The run's copy of its tokenizer, so that the folder can be used wherever it is.
std::string kept_tokenizer(const std::string& run_dir);

}  // namespace genesis

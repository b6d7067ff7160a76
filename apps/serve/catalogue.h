// What there is to serve: the checkpoints of the runs that the program was given, by the names that clients use. No
// name from outside ever becomes a path.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace genesis {

struct CatalogueEntry {
  std::string id;  // "my/step_00001000", or a run's name alone for its latest checkpoint
  std::string run_dir, checkpoint;
  int64_t step = 0, tokens = 0, bytes = 0;
  std::string problem;  // why it can't be read; empty: nothing is wrong with its state.json
};

class Catalogue {
 public:
  // Folders of runs, of which every checkpoint is served, and of checkpoints. Throws Error for what is neither.
  explicit Catalogue(const std::vector<std::string>& paths);

  struct Source {
    std::string name, run_dir;
    std::string checkpoint;  // the only one that is served; empty: all of the run
  };
  const std::vector<Source>& sources() const { return sources_; }

  // As they are now, a run's latest first. Runs go on and remove old ones.
  std::vector<CatalogueEntry> list() const;
  // Throws ApiError: 404, or 503 where a run has saved nothing yet. An empty name: the first run's latest.
  CatalogueEntry find(const std::string& id) const;

 private:
  std::vector<CatalogueEntry> list(const Source& source) const;
  std::vector<Source> sources_;
};

}  // namespace genesis

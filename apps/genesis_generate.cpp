// genesis_generate RUN_DIR|CHECKPOINT --prompt TEXT: writes on from the prompt.
#include <fmt/format.h>

#include <chrono>
#include <iostream>

#include "apps/generate/generator.h"
#include "apps/integer_in.h"
#include "apps/main.h"
#include "apps/open_model.h"
#include "io/sampler.h"
#include "io/tokenizer.h"
#include "io/utf8.h"
#include "kernels/common/error.h"

using namespace genesis;

namespace {

struct Options {
  std::string run, prompt, tokenizer;
  SamplingOptions sampling{.temperature = 0.8, .top_k = 0, .top_p = 0.95};
  int64_t tokens = 200, recurrence = 0;
  uint64_t seed = 1;
  bool ignore_end = false;
};

void generate(const Options& o) {
  const size_t valid = utf8_valid_prefix(o.prompt);
  check(valid == o.prompt.size(), fmt::format("--prompt: is not UTF-8 at byte {}: convert it first", valid));
  const auto warn = [](const std::string& line) { std::cerr << "genesis_generate: " << line << "\n"; };
  const ModelSource model = open_model(o.run, warn);
  const int64_t recurrence = recurrence_of(model.config.model, o.recurrence);
  const Tokenizer tokenizer = open_tokenizer(model, o.tokenizer);

  // A document begins after an end-of-document token, as in training.
  std::vector<int32_t> ids = tokenizer.encode(o.prompt);
  ids.insert(ids.begin(), tokenizer.eod());
  Generator generator(model.config, model.checkpoint, int64_t(ids.size()) + o.tokens, recurrence);
  Sampler sampler(o.sampling);
  StreamDecoder decoder(tokenizer);

  const auto start = std::chrono::steady_clock::now();
  std::span<const float> logits = generator.append(ids);
  std::cout << o.prompt << std::flush;
  int64_t made = 0;
  while (made < o.tokens && std::cout) {
    const double uniform = sampling_uniform(o.seed, uint64_t(made));
    const int32_t token = sampler.sample(logits.first(size_t(tokenizer.vocab_size())), uniform);
    if (token == tokenizer.eod() && !o.ignore_end) break;
    std::cout << decoder.push(token) << std::flush;
    if (++made < o.tokens) logits = generator.append({&token, 1});
  }
  std::cout << decoder.finish() << std::endl;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::cerr << fmt::format("{} tokens, {:.0f} tokens/s\n", made, double(made) / seconds);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Writes text with a trained model.", "genesis_generate"};
  Options o;
  app.add_option("run", o.run, "a run's folder (its latest checkpoint), or a checkpoint's folder")
      ->required();
  app.add_option("--prompt", o.prompt, "what to write on from; empty: from the start of a document");
  app.add_option("--tokens", o.tokens, "how many tokens to make at most")
      ->transform(integer_in(1, int64_t(1) << 24))
      ->capture_default_str();
  app.add_option("--temperature", o.sampling.temperature, "0: always the likeliest token")
      ->capture_default_str();
  app.add_option("--top-k", o.sampling.top_k, "choose among the k likeliest; 0: all")
      ->transform(integer_in(0))
      ->capture_default_str();
  app.add_option("--top-p", o.sampling.top_p,
                 "choose among the likeliest that have this probability together")
      ->capture_default_str();
  app.add_option("--seed", o.seed, "the same seed writes the same text")
      ->transform(integer_in(0))
      ->capture_default_str();
  app.add_option("--recurrence", o.recurrence, "recurrent steps; 0: as trained")
      ->transform(integer_in(0, 1024))
      ->capture_default_str();
  app.add_option("--tokenizer", o.tokenizer, "the tokenizer, where the run's folder has none");
  app.add_flag("--ignore-end", o.ignore_end, "go on past the end of a document");
  return run_main(app, argc, argv, [&] { generate(o); });
}

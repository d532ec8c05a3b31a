#pragma once
// A program on a backend plugin of the build tree, loaded through the ABI as the core does.

#include <memory>
#include <string>
#include <vector>

#include "core/model/inline_body.hpp"
#include "core/model/model.hpp"
#include "core/model/program.hpp"
#include "core/plugin/backend.hpp"
#include "core/plugin/host.hpp"

namespace bp::model::test {

// Folders of the source tree, whatever is installed.
ResourceFolders source_folders();
// The model at `path` through the gguf plugin.
Result<LoadedModel> load_gguf(const std::string& path, ResourceFolders folders = source_folders());

class BackendRunner {
 public:
  // The error of a plugin that is not built says so.
  static Result<std::unique_ptr<BackendRunner>> create(const std::string& id);

  [[nodiscard]] CheckFunction check() const;
  // Logits of the last of `tokens`, which are run in steps of at most `chunk`.
  Result<std::vector<float>> last_logits(const Program& program, const std::vector<int32_t>& tokens,
                                         uint32_t chunk = 512) const;
  // Logits behind the first n_prompt of `tokens`, run in one step, and behind each of the rest, run
  // one by one; the KV cache in float32.
  Result<std::vector<std::vector<float>>> decoded_logits(const Program& program,
                                                         const std::vector<int32_t>& tokens,
                                                         uint32_t n_prompt) const;

 private:
  // Runs `tokens` in steps of the given sizes; the logits behind the last of each.
  Result<std::vector<std::vector<float>>> run_steps(const Program& program,
                                                    const std::vector<int32_t>& tokens,
                                                    const std::vector<uint32_t>& steps,
                                                    bp_dtype kv) const;
  explicit BackendRunner(std::unique_ptr<plugin::HostServices> host, plugin::BackendHandle backend)
      : host_(std::move(host)), backend_(std::move(backend)) {}

  std::unique_ptr<plugin::HostServices> host_;
  plugin::BackendHandle backend_;
};

// rms(a - b) over the deviation of b.
double relative_rms(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace bp::model::test

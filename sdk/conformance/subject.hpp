#pragma once
// The plugin under test: its manifest, its library (loaded on first use), and the configuration
// that its objects are created with.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/plugin.h"
#include "backplane/status.hpp"

namespace bp::conformance {

struct ManifestParam {
  std::string key;            // dotted
  uint32_t type = 0;          // BP_TYPE_*
  std::string default_value;  // as written; "" where there is none
  bool has_default = false;
};

struct Manifest {
  std::filesystem::path path;     // absolute
  std::filesystem::path library;  // absolute
  std::string id, version, abi;
  std::vector<std::string> kinds;   // factory ids
  std::vector<std::string> stages;  // of a sampler
  std::vector<ManifestParam> config;

  [[nodiscard]] bool has_kind(std::string_view kind) const;
};

// Errors name the file and what is wrong with it.
[[nodiscard]] Result<Manifest> read_manifest(const std::filesystem::path& path);

struct Options {
  uint64_t seed = 1;
  std::filesystem::path model;      // --model; "" where none is given
  std::filesystem::path backplane;  // the program beside this one; "" where there is none
  std::vector<std::string> set;     // --set key=value, over the manifest's defaults
};

class Subject {
 public:
  // Reads the manifest; runs no code of the plugin.
  static Result<std::unique_ptr<Subject>> open(const std::filesystem::path& manifest,
                                               Options options);
  ~Subject();
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  [[nodiscard]] const Manifest& manifest() const;
  [[nodiscard]] const Options& options() const;

  // Loads the library once, with every symbol bound and for good; throws Failure where that is
  // impossible.
  [[nodiscard]] bp_plugin_query_fn query();

  // What the library says of itself, zero-extended; throws Failure where it says nothing.
  [[nodiscard]] const bp_plugin& plugin();

  // A zero-extended copy of the plugin's table for a kind; throws Failure where it has none.
  template <typename Factory>
  [[nodiscard]] Factory factory(const char* kind) {
    Factory copy{};
    copy_factory(kind, &copy, sizeof copy);
    return copy;
  }

  // The manifest's defaults and --set, sorted by key; lives as long as the subject.
  [[nodiscard]] const bp_params& params() const;

 private:
  struct Impl;
  explicit Subject(std::unique_ptr<Impl> impl);
  void copy_factory(const char* kind, void* out, size_t n_bytes);
  std::unique_ptr<Impl> impl_;
};

}  // namespace bp::conformance

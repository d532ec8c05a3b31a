#pragma once
// NAME.plugin.yaml: what a plugin says of itself before its code is loaded (A11).

#include <optional>
#include <string>
#include <vector>

#include "backplane/status.hpp"
#include "core/plugin/params.hpp"

namespace bp::plugin {

enum class FieldType { kInt, kFloat, kBool, kString };

// A configuration key of a plugin, or a request field of a sampler stage.
struct FieldSpec {
  std::string name;  // dotted for nested keys
  FieldType type = FieldType::kString;
  std::optional<ParamValue> fallback;  // `default:`; required where absent
  std::optional<double> min, max;      // inclusive
  std::vector<ParamValue> values;      // the only ones allowed; empty: any
  std::string help;
};

struct StageManifest {
  std::string name;
  std::string help;
  std::vector<FieldSpec> fields;
};

struct Manifest {
  std::string path;     // absolute, of the manifest
  std::string library;  // absolute; by default NAME.so beside the manifest
  std::string id;
  std::string version;
  std::string description;
  uint32_t abi_major = 0;
  uint32_t abi_minor = 0;
  std::vector<std::string> kinds;               // "bp.backend/1"
  std::vector<std::string> required_cpu;        // "avx2"
  std::vector<std::string> required_libraries;  // "libcudart.so.13"
  std::vector<FieldSpec> config;
  std::vector<StageManifest> stages;
  std::vector<std::string> overridable;  // ops that a backend lets other plugins' kernels compute
  std::vector<std::string> warnings;     // unknown keys

  [[nodiscard]] bool has_kind(const std::string& kind) const;
};

// Errors name the file, line and column.
Result<Manifest> read_manifest(const std::string& path);

// The value if it fits the field: its type (an int is also a float), range and allowed values. The
// error says what was found and what is allowed, without a place.
Result<ParamValue> check_field(const FieldSpec& field, const ParamValue& value);

}  // namespace bp::plugin

#pragma once
// The request fields of sampler stages as the manifest declares them, and values for them.

#include <map>
#include <string>
#include <vector>

#include "backplane/plugin.h"

namespace bp::conformance {

class Subject;

struct StageField {
  std::string name;
  uint32_t type = 0;                           // BP_TYPE_*
  double default_value = 0, min = 0, max = 0;  // numbers; infinite where there is no limit
  std::string default_text;
  std::vector<std::string> values;  // the only ones of a string
};

struct StageSpec {
  std::string name;
  std::vector<StageField> fields;

  [[nodiscard]] bool has(const std::string& field) const;
};

// In the manifest's order; runs no code of the plugin.
[[nodiscard]] std::vector<StageSpec> stages_of(const Subject& subject);

// The fields of one request, as the host hands them to a stage: sorted, defaults filled in.
class Fields {
 public:
  Fields(const StageSpec& stage, const std::map<std::string, double>& numbers,
         const std::map<std::string, std::string>& texts = {});
  Fields(const Fields& other);
  Fields& operator=(const Fields&) = delete;

  [[nodiscard]] const bp_params* params() const { return &params_; }
  [[nodiscard]] double number(const std::string& name) const;
  [[nodiscard]] std::string text() const;  // "top_k=5 top_p=0.5"

 private:
  void make_table();

  std::map<std::string, double> numbers_;
  std::map<std::string, std::string> texts_;
  std::map<std::string, uint32_t> types_;
  std::vector<bp_param> table_;
  bp_params params_{};
};

// The defaults, and every field at several of its values, the others at their defaults and away
// from them.
[[nodiscard]] std::vector<Fields> settings_of(const StageSpec& stage);

}  // namespace bp::conformance

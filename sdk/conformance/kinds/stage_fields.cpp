#include "sdk/conformance/kinds/stage_fields.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "backplane/plugin.hpp"
#include "sdk/conformance/subject.hpp"

namespace bp::conformance {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double number_of(const YAML::Node& node, double fallback) {
  if (!node) return fallback;
  if (node.Scalar() == "true" || node.Scalar() == "false") return node.Scalar() == "true" ? 1 : 0;
  return node.as<double>();
}

StageField field_of(const std::string& name, const YAML::Node& node) {
  StageField field;
  field.name = name;
  const auto type = node["type"].as<std::string>();
  field.type = type == "int"     ? BP_TYPE_INT
               : type == "float" ? BP_TYPE_FLOAT
               : type == "bool"  ? BP_TYPE_BOOL
                                 : BP_TYPE_STRING;
  if (field.type == BP_TYPE_STRING) {
    if (node["default"]) field.default_text = node["default"].Scalar();
    for (const auto& value : node["values"]) field.values.push_back(value.Scalar());
    return field;
  }
  field.min = number_of(node["min"], field.type == BP_TYPE_BOOL ? 0 : -kInfinity);
  field.max = number_of(node["max"], field.type == BP_TYPE_BOOL ? 1 : kInfinity);
  field.default_value = number_of(node["default"], std::max(field.min, 0.0));
  return field;
}

// A few values of a number, its limits among them; ranges without an end are cut off.
std::vector<double> values_of(const StageField& field) {
  if (field.type == BP_TYPE_BOOL) return {0, 1};
  const double low = std::max(field.min, -100.0), high = std::min(field.max, 100.0);
  std::set<double> values;
  for (const double value : {low, high, low + 0.1 * (high - low), low + 0.5 * (high - low),
                             low + 0.9 * (high - low), 0.5, 0.9, 1.0, 1.5, 2.0, 7.0}) {
    const double whole = field.type == BP_TYPE_INT ? std::round(value) : value;
    if (whole >= low && whole <= high) values.insert(whole);
  }
  return {values.begin(), values.end()};
}

// Within the range and far from where a field is usually off.
double strong_value(const StageField& field) {
  if (field.type == BP_TYPE_BOOL) return 1;
  const double low = std::max(field.min, -10.0), high = std::min(field.max, 10.0);
  const double value = low + 0.7 * (high - low);
  return field.type == BP_TYPE_INT ? std::round(value) : value;
}

}  // namespace

bool StageSpec::has(const std::string& field) const {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const StageField& f) { return f.name == field; });
}

std::vector<StageSpec> stages_of(const Subject& subject) {
  std::vector<StageSpec> stages;
  const YAML::Node root = YAML::LoadFile(subject.manifest().path.string());
  for (const auto& node : root["stages"]) {
    StageSpec& stage = stages.emplace_back();
    stage.name = node["name"].as<std::string>();
    for (const auto& entry : node["fields"]) {
      stage.fields.push_back(field_of(entry.first.as<std::string>(), entry.second));
    }
  }
  return stages;
}

Fields::Fields(const StageSpec& stage, const std::map<std::string, double>& numbers,
               const std::map<std::string, std::string>& texts) {
  for (const StageField& field : stage.fields) {
    types_[field.name] = field.type;
    if (field.type == BP_TYPE_STRING) {
      const auto given = texts.find(field.name);
      texts_[field.name] = given == texts.end() ? field.default_text : given->second;
    } else {
      const auto given = numbers.find(field.name);
      numbers_[field.name] = given == numbers.end() ? field.default_value : given->second;
    }
  }
  make_table();
}

Fields::Fields(const Fields& other)
    : numbers_(other.numbers_), texts_(other.texts_), types_(other.types_) {
  make_table();
}

void Fields::make_table() {
  for (const auto& [name, type] : types_) {
    bp_param param{};
    param.key = to_bp_str(name);
    param.type = type;
    if (type == BP_TYPE_STRING) {
      param.s = to_bp_str(texts_[name]);
    } else {
      param.d = numbers_[name];
      param.i = static_cast<int64_t>(param.d);
    }
    table_.push_back(param);
  }
  params_ = make_growable<bp_params>();
  params_.n_params = static_cast<uint32_t>(table_.size());
  params_.params = table_.data();
}

double Fields::number(const std::string& name) const {
  return numbers_.at(name);
}

std::string Fields::text() const {
  std::string text;
  for (const auto& [name, value] : numbers_) {
    text += (text.empty() ? "" : " ") + name + "=" + std::to_string(value);
  }
  for (const auto& [name, value] : texts_) text += " " + name + "=" + value;
  return text;
}

std::vector<Fields> settings_of(const StageSpec& stage) {
  std::map<std::string, double> strong;
  for (const StageField& field : stage.fields) {
    if (field.type != BP_TYPE_STRING) strong[field.name] = strong_value(field);
  }
  std::vector<Fields> settings;
  settings.emplace_back(stage, std::map<std::string, double>());
  settings.emplace_back(stage, strong);
  for (const StageField& field : stage.fields) {
    for (const std::string& text : field.values) {
      settings.emplace_back(stage, strong, std::map<std::string, std::string>{{field.name, text}});
    }
    if (field.type == BP_TYPE_STRING) continue;
    for (const double value : values_of(field)) {
      settings.emplace_back(stage, std::map<std::string, double>{{field.name, value}});
      if (stage.fields.size() == 1) continue;
      auto others = strong;
      others[field.name] = value;
      settings.emplace_back(stage, others);
    }
  }
  return settings;
}

}  // namespace bp::conformance

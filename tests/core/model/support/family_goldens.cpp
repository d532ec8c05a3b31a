#include "tests/core/model/support/family_goldens.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

namespace bp::model::test {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path goldens_folder() {
  const char* source = std::getenv("BACKPLANE_SOURCE_DIR");
  return fs::path(source == nullptr ? "." : source) / "tests" / "data" / "architectures";
}

uint64_t name_hash(const std::string& name) {
  uint64_t value = 0xCBF29CE484222325;  // FNV-1a
  for (const char c : name) value = (value ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  return value;
}

// Numbers of 16 bits, those of a name always the same.
class Random {
 public:
  explicit Random(const std::string& name) : state_(name_hash(name)) {}
  uint64_t next() {  // splitmix64
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return (z ^ (z >> 31)) >> 48;
  }

 private:
  uint64_t state_;
};

uint64_t n_elements(const std::vector<uint64_t>& dims) {
  uint64_t n = 1;
  for (const uint64_t dim : dims) n *= dim;
  return n;
}

// Blocks of MXFP4, their bytes in place of floats: four exponents, and any elements.
std::vector<float> blocks_of(const std::string& name, const std::vector<uint64_t>& dims) {
  constexpr uint64_t kBlockBytes = 17;
  const uint64_t n_bytes = n_elements(dims) / 32 * kBlockBytes;
  std::vector<float> values(n_bytes / sizeof(float) + 1);
  auto* bytes = reinterpret_cast<uint8_t*>(values.data());
  Random random(name);
  for (uint64_t i = 0; i < n_bytes; ++i) {
    bytes[i] = static_cast<uint8_t>(random.next());
    if (i % kBlockBytes == 0) bytes[i] = static_cast<uint8_t>(120 + bytes[i] % 4);
  }
  return values;
}

// Values on a grid of 2^-16 between -1 and 1, and 1 added or scaled by powers of two.
std::vector<float> values_of(const std::string& name, const std::vector<uint64_t>& dims) {
  const bool is_decay = name.ends_with("ssm_a");
  const bool is_norm =
      name.find("norm") != std::string::npos || name.find(".ln_") != std::string::npos;
  const bool is_small = dims.size() == 1 || name.find("bias") != std::string::npos;
  const double exponent = std::nearbyint(std::log2(static_cast<double>(dims.back())) / 2);
  const double scale = is_small ? 0.25 : 2 / std::exp2(exponent);
  std::vector<float> values;
  Random random(name);
  for (uint64_t n = n_elements(dims); n > 0; --n) {
    const double unit = static_cast<double>(random.next()) / 32768 - 1;
    values.push_back(static_cast<float>(is_decay  ? unit / 4 - 1
                                        : is_norm ? 1 + unit / 4
                                                  : unit * scale));
  }
  return values;
}

void set_metadata(FakeModel& model, const std::string& key, const json& value) {
  auto& metadata = model.metadata;
  if (value.is_boolean()) {
    metadata.boolean(key, value);
  } else if (value.is_number_integer()) {
    metadata.i64(key, value);
  } else if (value.is_number()) {
    metadata.f64(key, value);
  } else if (value.is_string()) {
    metadata.string(key, value.get<std::string>());
  } else if (value.front().is_string()) {
    metadata.strings(key, value.get<std::vector<std::string>>());
  } else if (value.front().is_boolean()) {
    metadata.booleans(key, value.get<std::vector<bool>>());
  } else if (value.front().is_number_integer()) {
    metadata.i64s(key, value.get<std::vector<int64_t>>());
  } else {
    metadata.f64s(key, value.get<std::vector<double>>());
  }
}

bool is_mxfp4(const json& form, const std::string& tensor) {
  if (!form.contains("mxfp4")) return false;
  return std::ranges::count(form["mxfp4"], json(tensor)) > 0;
}

}  // namespace

std::vector<std::string> all_families() {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(goldens_folder(), error)) {
    if (entry.path().extension() == ".json") names.insert(entry.path().stem().string());
  }
  return {names.begin(), names.end()};
}

json family_golden(const std::string& family) {
  std::ifstream in(goldens_folder() / (family + ".json"));
  return json::parse(in);
}

void fill_family(FakeModel& model, const json& metadata, const json& form) {
  for (const auto& [key, value] : metadata.items()) set_metadata(model, key, value);
  for (const auto& [name, shape] : form["tensors"].items()) {
    const auto dims = shape.get<std::vector<uint64_t>>();
    const bool is_given = form.contains("given") && form["given"].contains(name);
    if (is_mxfp4(form, name)) {
      model.tensor(name, dims, BP_DTYPE_MXFP4, blocks_of(name, dims));
    } else {
      model.tensor(
          name, dims, BP_DTYPE_F32,
          is_given ? form["given"][name].get<std::vector<float>>() : values_of(name, dims));
    }
  }
}

void fill_shapes(FakeModel& model, const json& metadata, const json& tensors) {
  for (const auto& [key, value] : metadata.items()) set_metadata(model, key, value);
  for (const json& tensor : tensors) {
    model.tensor(tensor[0], tensor[1].get<std::vector<uint64_t>>());
  }
}

std::string family_case_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

}  // namespace bp::model::test

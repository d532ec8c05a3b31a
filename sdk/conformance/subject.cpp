#include "sdk/conformance/subject.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "backplane/plugin.hpp"
#include "sdk/conformance/test.hpp"

namespace bp::conformance {

namespace {

// Nothing where the text is no value of the type.
std::optional<bp_param> parse_value(uint32_t type, const std::string& text) {
  bp_param param{};
  param.type = type;
  size_t used = text.size();
  try {
    if (type == BP_TYPE_INT) param.d = static_cast<double>(param.i = std::stoll(text, &used));
    if (type == BP_TYPE_FLOAT) param.i = static_cast<int64_t>(param.d = std::stod(text, &used));
  } catch (const std::exception&) {
    return std::nullopt;
  }
  if (type == BP_TYPE_BOOL && text != "true" && text != "false") return std::nullopt;
  if (type == BP_TYPE_BOOL) param.i = text == "true" ? 1 : 0;
  if (used != text.size()) return std::nullopt;
  return param;
}

}  // namespace

struct Subject::Impl {
  Manifest manifest;
  Options options;
  std::map<std::string, std::string> values;  // by key
  std::vector<bp_param> table;
  bp_params params{};
  bp_plugin_query_fn query = nullptr;
  std::optional<bp_plugin> plugin;

  Status set_defaults() {
    for (const ManifestParam& param : manifest.config) {
      if (param.has_default) values[param.key] = param.default_value;
    }
    for (const std::string& assignment : options.set) {
      const size_t equals = assignment.find('=');
      if (equals == std::string::npos) {
        return invalid_argument("--set " + assignment + ": must be key=value");
      }
      values[assignment.substr(0, equals)] = assignment.substr(equals + 1);
    }
    return {};
  }

  Status fill_params() {
    BP_TRY(set_defaults());
    for (const ManifestParam& param : manifest.config) {
      if (values.count(param.key) != 0) continue;
      return invalid_argument("the key '" + param.key + "' has no default: give --set " +
                              param.key + "=VALUE");
    }
    for (const auto& [key, text] : values) {
      const auto known =
          std::find_if(manifest.config.begin(), manifest.config.end(),
                       [&name = key](const ManifestParam& p) { return p.key == name; });
      if (known == manifest.config.end()) {
        return invalid_argument("--set " + key + ": the manifest has no such key");
      }
      auto param = parse_value(known->type, text);
      if (!param) return invalid_argument("'" + text + "' is no value of the key '" + key + "'");
      param->key = to_bp_str(key);
      if (param->type == BP_TYPE_STRING) param->s = to_bp_str(text);
      table.push_back(*param);
    }
    params = make_growable<bp_params>();
    params.n_params = static_cast<uint32_t>(table.size());
    params.params = table.data();
    return {};
  }
};

Subject::Subject(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Subject::~Subject() = default;

Result<std::unique_ptr<Subject>> Subject::open(const std::filesystem::path& manifest,
                                               Options options) {
  auto impl = std::make_unique<Impl>();
  BP_ASSIGN(impl->manifest, read_manifest(manifest));
  impl->options = std::move(options);
  const Status filled = impl->fill_params();
  if (!filled.ok()) return filled.with_context(manifest.string());
  return std::unique_ptr<Subject>(new Subject(std::move(impl)));
}

const Manifest& Subject::manifest() const {
  return impl_->manifest;
}
const Options& Subject::options() const {
  return impl_->options;
}
const bp_params& Subject::params() const {
  return impl_->params;
}

bp_plugin_query_fn Subject::query() {
  if (impl_->query != nullptr) return impl_->query;
  const std::string path = impl_->manifest.library.string();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) throw Failure("the library cannot be loaded: " + std::string(dlerror()));
  impl_->query = reinterpret_cast<bp_plugin_query_fn>(dlsym(library, "bp_plugin_query"));
  if (impl_->query == nullptr) {
    throw Failure(path + " exports no bp_plugin_query: it is no Backplane plugin");
  }
  return impl_->query;
}

const bp_plugin& Subject::plugin() {
  if (impl_->plugin) return *impl_->plugin;
  const bp_plugin* answer = query()(BP_ABI_MAJOR);
  if (answer == nullptr) {
    throw Failure("bp_plugin_query(" + std::to_string(BP_ABI_MAJOR) + ") gives NULL");
  }
  impl_->plugin = copy_growable(answer);
  return *impl_->plugin;
}

void Subject::copy_factory(const char* kind, void* out, size_t n_bytes) {
  if (plugin().get_factory == nullptr) throw Failure("bp_plugin.get_factory is NULL");
  const void* table = plugin().get_factory(kind);
  if (table == nullptr) throw Failure("get_factory(\"" + std::string(kind) + "\") gives NULL");
  uint32_t size = 0;
  std::memcpy(&size, table, sizeof size);
  std::memcpy(out, table, std::min<size_t>(size, n_bytes));
}

}  // namespace bp::conformance

#include "core/cli/model_options.hpp"

#include "core/config/kv_section.hpp"

namespace bp::cli {

Result<config::Model> configured(const ModelOptions& options, const plugin::Catalog& catalog) {
  BP_ASSIGN(config::Model config, config::default_model(options.model, options.backend, catalog));
  config.quantize = options.quantize;
  BP_TRY(config::set_kv_types(options.kv_types, config.backend));
  BP_TRY(config::set_backend_keys(options.backend_keys, catalog, config.backend));
  BP_TRY(config::add_overrides(options.overrides, catalog, config.backend));
  return config;
}

}  // namespace bp::cli

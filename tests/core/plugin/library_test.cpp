// Libraries that are wrong in one way each end in one sentence that names the plugin.

#include "core/plugin/library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "backplane/backend.h"
#include "backplane/scheduler.h"
#include "core/plugin/backend.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/scheduler.hpp"

namespace bp::plugin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Manifest manifest_of(const std::string& id, const std::string& kind = BP_SCHEDULER_ID) {
  Manifest manifest;
  manifest.id = id;
  manifest.version = "1.0.0";
  manifest.abi_major = BP_ABI_MAJOR;
  manifest.abi_minor = BP_ABI_MINOR;
  manifest.kinds = {kind};
  manifest.library = std::string(WRONG_PLUGIN_DIR) + "/" + id + ".so";
  return manifest;
}

std::string load_error(const Manifest& manifest) {
  const auto library = Library::load(manifest);
  return library.ok() ? "" : library.status().message();
}

TEST(Library, LoadsAGoodPlugin) {
  const auto library = Library::load(manifest_of("good"));
  ASSERT_TRUE(library.ok()) << library.status().message();
  EXPECT_NE((*library)->factory<bp_scheduler_factory>(BP_SCHEDULER_ID), nullptr);
  EXPECT_EQ((*library)->factory<bp_backend_factory>(BP_BACKEND_ID), nullptr);
}

TEST(Library, NamesAMissingFile) {
  EXPECT_THAT(load_error(manifest_of("absent")),
              AllOf(HasSubstr("plugin 'absent'"), HasSubstr("cannot be loaded"),
                    HasSubstr("No such file or directory")));
}

TEST(Library, NamesATextFile) {
  const std::string path = ::testing::TempDir() + "text.so";
  std::ofstream(path) << "this is no library\n";
  Manifest manifest = manifest_of("text");
  manifest.library = path;
  EXPECT_THAT(load_error(manifest), AllOf(HasSubstr("plugin 'text'"), HasSubstr("cannot be loaded"),
                                          HasSubstr("file too short")));
}

TEST(Library, NamesALibraryThatIsNoPlugin) {
  EXPECT_THAT(load_error(manifest_of("not-a-plugin")),
              AllOf(HasSubstr("plugin 'not-a-plugin'"), HasSubstr("no bp_plugin_query")));
}

TEST(Library, RefusesAnotherMajor) {
  EXPECT_THAT(load_error(manifest_of("other-major")),
              AllOf(HasSubstr("plugin 'other-major'"), HasSubstr("ABI major is 7")));
  EXPECT_THAT(load_error(manifest_of("refuses-major")),
              AllOf(HasSubstr("plugin 'refuses-major'"), HasSubstr("refuses ABI major 0")));
}

TEST(Library, ListsEveryDisagreementWithTheManifest) {
  Manifest manifest = manifest_of("disagrees");
  manifest.abi_minor = 9;
  manifest.kinds.push_back(BP_BACKEND_ID);
  EXPECT_THAT(
      load_error(manifest),
      AllOf(HasSubstr("plugin 'disagrees'"), HasSubstr("version is '1.0.0' in the manifest"),
            HasSubstr("abi is '0.9' in the manifest"), HasSubstr("the list of kinds"),
            HasSubstr("get_factory(\"bp.backend/1\") gives no factory")));
}

TEST(Library, SurvivesAnExceptionOutOfTheQuery) {
  EXPECT_THAT(load_error(manifest_of("throws-in-query")),
              AllOf(HasSubstr("plugin 'throws-in-query'"), HasSubstr("threw an exception")));
}

TEST(BackendHandle, NamesAMissingFunction) {
  const auto library = Library::load(manifest_of("missing-function", BP_BACKEND_ID));
  ASSERT_TRUE(library.ok()) << library.status().message();
  const HostServices host;
  const auto backend =
      BackendHandle::create((*library)->factory<bp_backend_factory>(BP_BACKEND_ID), host.get(), {});
  ASSERT_FALSE(backend.ok());
  EXPECT_THAT(backend.status().message(), HasSubstr("bp_backend_factory.submit is missing"));
}

TEST(SchedulerHandle, SurvivesAnExceptionOutOfCreate) {
  const auto library = Library::load(manifest_of("throws-in-create"));
  ASSERT_TRUE(library.ok()) << library.status().message();
  const HostServices host;
  const auto scheduler = SchedulerHandle::create(
      (*library)->factory<bp_scheduler_factory>(BP_SCHEDULER_ID), host.get(), {});
  ASSERT_FALSE(scheduler.ok());
  EXPECT_THAT(scheduler.status().message(), HasSubstr("threw an exception"));
}

TEST(SchedulerHandle, RefusesATableFromAnOlderVersionWithoutItsFunctions) {
  struct Old {
    uint32_t struct_size;
    uint32_t reserved;
  } old{sizeof(Old), 0};
  const HostServices host;
  const auto scheduler =
      SchedulerHandle::create(reinterpret_cast<const bp_scheduler_factory*>(&old), host.get(), {});
  ASSERT_FALSE(scheduler.ok());
  EXPECT_THAT(scheduler.status().message(), HasSubstr("schedule) is missing"));
}

}  // namespace
}  // namespace bp::plugin

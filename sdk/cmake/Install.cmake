# What `make install` puts under the prefix. The program finds the rest by its own place:
# ../lib/backplane and ../share/backplane.
include(CMakePackageConfigHelpers)
get_property(plugins GLOBAL PROPERTY BACKPLANE_PLUGINS)

install(TARGETS backplane backplane-conform RUNTIME DESTINATION bin)
foreach(plugin ${plugins})
  install(TARGETS ${plugin} LIBRARY DESTINATION lib/backplane)
  get_target_property(manifest ${plugin} BACKPLANE_MANIFEST)
  install(FILES ${manifest} DESTINATION lib/backplane RENAME ${plugin}.plugin.yaml)
endforeach()

# For plugin authors: headers, the reference interpreter, find_package(BackplaneSDK).
install(DIRECTORY sdk/include/backplane sdk/cpp/backplane sdk/reference/include/backplane
        DESTINATION include FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
set_target_properties(bp_reference PROPERTIES OUTPUT_NAME backplane_reference)
install(TARGETS bp_reference ARCHIVE DESTINATION lib)
# While the major is 0 another minor is another ABI.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/BackplaneSDKConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES sdk/cmake/BackplaneSDKConfig.cmake sdk/cmake/BackplanePlugin.cmake
        sdk/cmake/plugin.map ${CMAKE_BINARY_DIR}/BackplaneSDKConfigVersion.cmake
        DESTINATION lib/cmake/BackplaneSDK)

# Configurations whose relative paths hold here too: fetch_model.py fills share/backplane/models.
install(FILES configs/own-model.yaml configs/smollm2.yaml configs/smollm2.package.json
        DESTINATION share/backplane/configs)
install(PROGRAMS configs/fetch_model.py DESTINATION share/backplane/configs)
install(DIRECTORY configs/architectures DESTINATION share/backplane/configs
        FILES_MATCHING PATTERN "*.yaml")
install(DIRECTORY sdk/ops DESTINATION share/backplane FILES_MATCHING PATTERN "*.yaml")
# Plugins to copy.
install(DIRECTORY sdk/template/ DESTINATION share/backplane/templates)
install(DIRECTORY docs/plugins/ DESTINATION share/backplane/docs FILES_MATCHING PATTERN "*.md")
install(FILES docs/architectures.md docs/configuration.md docs/http.md docs/quantize.md
        docs/simulate.md DESTINATION share/backplane/docs)
# The model of backplane-conform, and what it must answer.
install(FILES tests/data/tiny/tiny-chat.gguf tests/data/tiny/expected.json
        DESTINATION share/backplane/conformance)
install(FILES LICENSE DESTINATION share/backplane)

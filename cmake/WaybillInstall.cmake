# What is installed: the program, and the library, in parts that an application names: find_package(waybill COMPONENTS …),
# or pkg-config. The parts are shared libraries unless BUILD_SHARED_LIBS is OFF.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
option(BUILD_SHARED_LIBS "Install shared libraries, not static ones" ON)
set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/waybill)

# waybill_part(NAME n DESCRIPTION text COMPONENTS … [OFFERS …] [PARTS …] [FIND code] [LINKS …] [REQUIRES …]
#              [REQUIRES_PRIVATE …])
#
# Declares one part, which an application links as waybill::<n>: components, with their public headers; everything else is
# hidden in it. OFFERS are the names that a shared library offers, if not all of those that headers declare: a component
# that is in several parts is offered by one of them. It builds on PARTS. LINKS are libraries that its headers name; FIND is how CMake finds these. REQUIRES are
# their names for pkg-config, REQUIRES_PRIVATE those of what only the part itself needs. A part whose components are not
# built is left out.
function(waybill_part)
  cmake_parse_arguments(P "" "NAME;DESCRIPTION;FIND" "COMPONENTS;OFFERS;PARTS;LINKS;REQUIRES;REQUIRES_PRIVATE" ${ARGN})
  foreach(component IN LISTS P_COMPONENTS)
    if(NOT TARGET waybill_${component})
      return()
    endif()
    get_property(component_headers GLOBAL PROPERTY waybill_headers_${component})
    list(APPEND headers ${component_headers})
    get_target_property(type waybill_${component} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND objects $<TARGET_OBJECTS:waybill_${component}>)
      get_property(component_links GLOBAL PROPERTY waybill_links_${component})
      list(APPEND links ${component_links})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES links)
  list(REMOVE_ITEM links nlohmann_json::nlohmann_json)  # Headers alone, and compiled already.

  set(target libwaybill_${P_NAME})
  if(objects)
    waybill_part_library(${target} ${P_NAME} "${objects}" "${links}" "${P_OFFERS}")
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${P_NAME} VERIFY_INTERFACE_HEADER_SETS OFF)
  list(TRANSFORM P_PARTS PREPEND libwaybill_ OUTPUT_VARIABLE parts)
  target_link_libraries(${target} ${scope} ${parts} ${P_LINKS})
  target_compile_features(${target} ${scope} cxx_std_20)
  list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/include/)
  target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${headers})

  install(TARGETS ${target} EXPORT waybill-${P_NAME} FILE_SET HEADERS)
  install(EXPORT waybill-${P_NAME} NAMESPACE waybill:: FILE waybill-${P_NAME}-targets.cmake DESTINATION ${config_folder})
  waybill_part_config()
  waybill_part_pkgconfig()
  set_property(GLOBAL APPEND PROPERTY waybill_parts ${P_NAME})
endfunction()

function(waybill_part_library target name objects links offers)
  add_library(${target} ${objects})
  target_link_libraries(${target} PRIVATE ${links})
  if(name STREQUAL "core")
    set(file waybill)
  else()
    set(file waybill_${name})
  endif()
  # Before 1.0 a minor version may break what was linked with the one before.
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${file} LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(BUILD_SHARED_LIBS)
    waybill_part_symbols(script ${name} "${offers}")
    target_link_options(${target} PRIVATE -Wl,-z,defs,-z,relro,-z,now,-z,noexecstack -Wl,--version-script=${script})
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${script})
  endif()
endfunction()

# For the linker. What the compiler has hidden stays hidden; but it hides no instance of std's templates.
function(waybill_part_symbols result name offers)
  set(script ${CMAKE_BINARY_DIR}/install/${name}.symbols)
  if(NOT offers)
    set(offers "?")
  endif()
  set(patterns)
  foreach(offer IN LISTS offers)
    string(APPEND patterns "    waybill::${offer}*; typeinfo*for?waybill::${offer}*; vtable?for?waybill::${offer}*;\n")
  endforeach()
  file(CONFIGURE OUTPUT ${script} CONTENT "{\n  global: extern \"C++\" {\n${patterns}  };\n  local: *;\n};\n" @ONLY)
  set(${result} ${script} PARENT_SCOPE)
endfunction()

# How the part is found: what it builds on, then what its headers name, then itself.
macro(waybill_part_config)
  set(code "include(CMakeFindDependencyMacro)\n")
  foreach(part IN LISTS P_PARTS)
    string(APPEND code "include(\${CMAKE_CURRENT_LIST_DIR}/waybill-${part}.cmake)\n")
  endforeach()
  string(APPEND code "${P_FIND}\ninclude(\${CMAKE_CURRENT_LIST_DIR}/waybill-${P_NAME}-targets.cmake)\n")
  file(WRITE ${CMAKE_BINARY_DIR}/install/waybill-${P_NAME}.cmake "${code}")
  install(FILES ${CMAKE_BINARY_DIR}/install/waybill-${P_NAME}.cmake DESTINATION ${config_folder})
endmacro()

macro(waybill_part_pkgconfig)
  file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)  # It may be moved as a whole.
  list(TRANSFORM P_PARTS PREPEND waybill- OUTPUT_VARIABLE pc_parts)
  list(TRANSFORM pc_parts REPLACE "^waybill-core$" waybill)
  if(BUILD_SHARED_LIBS)
    string(JOIN " " pc_requires ${pc_parts} ${P_REQUIRES})
    string(JOIN " " pc_requires_private ${P_REQUIRES_PRIVATE})
  else()  # Whoever links it links those, too, as they are installed; --static would ask for static ones.
    string(JOIN " " pc_requires ${pc_parts} ${P_REQUIRES} ${P_REQUIRES_PRIVATE})
    set(pc_requires_private)
  endif()
  set(pc_libs)
  if(objects)
    get_target_property(file ${target} OUTPUT_NAME)
    set(pc_libs "-L\${libdir} -l${file}")
  endif()
  set(pc_name waybill-${P_NAME})
  if(P_NAME STREQUAL "core")
    set(pc_name waybill)
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/waybill.pc.in ${CMAKE_BINARY_DIR}/install/${pc_name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/install/${pc_name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endmacro()

# A static library needs at the end what it was built with.
set(core_find)
if(NOT BUILD_SHARED_LIBS)
  string(JOIN "\n" core_find "find_dependency(Threads)" "find_dependency(fmt)" "find_dependency(OpenSSL)"
    "find_dependency(PostgreSQL)" "find_dependency(SQLite3)")
endif()
waybill_part(NAME core DESCRIPTION "A transactional outbox: enqueue, event store, unit of work, relay"
  COMPONENTS base model database enqueue store_postgres store_sqlite store_memory sink_call service relay
  FIND "${core_find}" REQUIRES_PRIVATE libpq sqlite3 libcrypto fmt)
# Consumers need parts of the core that it hides: they have these once more.
set(consume_components base model message net consume)
set(consume_offers Consumer MessageSource)
set(consume_find "${core_find}")
set(consume_requires libssl libcrypto fmt)
if(TARGET waybill_consume_nats)
  list(APPEND consume_components broker_nats consume_nats)
  list(APPEND consume_offers nats_source)
endif()
if(TARGET waybill_consume_rabbitmq)
  list(APPEND consume_components broker_rabbitmq consume_rabbitmq)
  list(APPEND consume_offers rabbitmq_source)
  list(APPEND consume_requires librabbitmq)
  if(NOT BUILD_SHARED_LIBS)
    string(APPEND consume_find "\nfind_dependency(PkgConfig)\npkg_check_modules(RABBITMQ REQUIRED IMPORTED_TARGET librabbitmq)")
  endif()
endif()
waybill_part(NAME consume DESCRIPTION "Consumers for waybill's inbox" COMPONENTS ${consume_components}
  OFFERS ${consume_offers} PARTS core FIND "${consume_find}" REQUIRES_PRIVATE ${consume_requires})
waybill_part(NAME pqxx DESCRIPTION "libpqxx's connections for waybill" COMPONENTS pqxx PARTS core
  FIND "find_dependency(PkgConfig)\npkg_check_modules(PQXX REQUIRED IMPORTED_TARGET libpqxx)"
  LINKS PkgConfig::PQXX REQUIRES libpqxx)
waybill_part(NAME testing DESCRIPTION "For tests of what uses waybill" COMPONENTS testing PARTS core)
waybill_part(NAME gmock DESCRIPTION "GoogleMock's matchers for waybill" COMPONENTS gmock PARTS testing
  FIND "find_dependency(GTest)" LINKS GTest::gmock REQUIRES gmock)

get_property(waybill_parts GLOBAL PROPERTY waybill_parts)
configure_package_config_file(cmake/waybill-config.cmake.in ${CMAKE_BINARY_DIR}/install/waybill-config.cmake
  INSTALL_DESTINATION ${config_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/install/waybill-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/install/waybill-config.cmake ${CMAKE_BINARY_DIR}/install/waybill-config-version.cmake
  DESTINATION ${config_folder})

install(TARGETS waybill)
# As they lie in the source, so that their links lead somewhere.
install(FILES LICENSE README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})

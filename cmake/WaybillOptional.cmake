# waybill_optional(NAME [module]): a part that not everybody wants, or that needs a library which not everybody has, found
# by pkg-config.
#
# The builder says -DWAYBILL_WITH_<NAME>=AUTO, ON or OFF; AUTO, the default, is ON where the library is, or none is
# needed. If it is, the variable WAYBILL_HAS_<NAME> is set, and PkgConfig::<NAME> is the library.
macro(waybill_optional name)
  set(WAYBILL_WITH_${name} AUTO CACHE STRING "Build with ${name}: AUTO, ON or OFF")
  set_property(CACHE WAYBILL_WITH_${name} PROPERTY STRINGS AUTO ON OFF)
  set(WAYBILL_HAS_${name} OFF)
  if(NOT WAYBILL_WITH_${name} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "WAYBILL_WITH_${name} must be AUTO, ON or OFF, not '${WAYBILL_WITH_${name}}'")
  elseif(NOT WAYBILL_WITH_${name} STREQUAL "OFF" AND "${ARGN}" STREQUAL "")
    set(WAYBILL_HAS_${name} ON)
  elseif(WAYBILL_WITH_${name} STREQUAL "ON")
    pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${ARGN})
    set(WAYBILL_HAS_${name} ON)
  elseif(WAYBILL_WITH_${name} STREQUAL "AUTO")
    pkg_check_modules(${name} IMPORTED_TARGET ${ARGN})
    if(${name}_FOUND)
      set(WAYBILL_HAS_${name} ON)
    endif()
  endif()
endmacro()

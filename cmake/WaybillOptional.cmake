# waybill_optional(NAME module): a part that needs a library which not everybody has, found by pkg-config.
#
# The builder says -DWAYBILL_WITH_<NAME>=AUTO, ON or OFF; AUTO, the default, is ON where the library is. If it is, the
# variable WAYBILL_HAS_<NAME> is set, and PkgConfig::<NAME> is the library.
macro(waybill_optional name module)
  set(WAYBILL_WITH_${name} AUTO CACHE STRING "Build with ${module}: AUTO, ON or OFF")
  set_property(CACHE WAYBILL_WITH_${name} PROPERTY STRINGS AUTO ON OFF)
  set(WAYBILL_HAS_${name} OFF)
  if(WAYBILL_WITH_${name} STREQUAL "ON")
    pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${module})
  elseif(WAYBILL_WITH_${name} STREQUAL "AUTO")
    pkg_check_modules(${name} IMPORTED_TARGET ${module})
  elseif(WAYBILL_WITH_${name})
    message(FATAL_ERROR "WAYBILL_WITH_${name} must be AUTO, ON or OFF, not '${WAYBILL_WITH_${name}}'")
  endif()
  if(NOT WAYBILL_WITH_${name} STREQUAL "OFF" AND ${name}_FOUND)
    set(WAYBILL_HAS_${name} ON)
  endif()
endmacro()

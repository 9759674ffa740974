/* What was found, as a whole. */
#ifndef DOCTOR_OUTPUT_H
#define DOCTOR_OUTPUT_H

#include "doctor.h"

doctor_state doctor_worst(const doctor *d);
void doctor_print_json(const doctor *d); /* one object (docs/schema/doctor.json) */
/* Compares the bit probes of a record with what the device computes; as_json: docs/schema/choices-verify.json. The exit
 * status: TOOL_NO where one does not match, or there is none; TOOL_DEVICE and E-CHOICE-021 without a device. */
int doctor_verify(const char *record, bool as_json);
void doctor_release(doctor *d);

#endif

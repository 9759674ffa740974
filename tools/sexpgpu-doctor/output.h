/* What was found, as a whole. */
#ifndef DOCTOR_OUTPUT_H
#define DOCTOR_OUTPUT_H

#include "doctor.h"

doctor_state doctor_worst(const doctor *d);
void doctor_print_json(const doctor *d); /* one object (docs/schema/doctor.json) */
void doctor_release(doctor *d);

#endif

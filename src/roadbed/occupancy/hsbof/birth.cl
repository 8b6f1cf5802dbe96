// SPDX-License-Identifier: Apache-2.0
// Newborn particles: their cells and velocities. The CPU's: birth_cpu.py.

// A velocity from the prior: uniform in a disc, or that of the ego vehicle or its opposite.
FUNCTION void prior_velocity(GLOBAL const Step *step, uint k, float *vx, float *vy) {
    GLOBAL const BirthRule *rule = &step->birth;
    float4 u = uniforms(step->seed, step->frame, BIRTH_VELOCITY, k);
    real choice = (real)u.x;
    if (choice < rule->traffic) {
        float4 n = normals(step->seed, step->frame, BIRTH_TRAFFIC, k);
        real direction = u.z < 0.5f ? (real)1 : (real)-1;
        *vx = (float)(direction * rule->ego_x + rule->traffic_spread * (real)n.x);
        *vy = (float)(direction * rule->ego_y + rule->traffic_spread * (real)n.y);
        return;
    }
    real speed = rule->speed * (real)sqrt(u.y);
    float x, y;
    cos_sin_turns(u.z, &x, &y);
    *vx = (float)(speed * (real)x);
    *vy = (float)(speed * (real)y);
}

FUNCTION void take_velocity(GLOBAL const Step *step, float2 velocity, real spread, uint k, Particle *born) {
    float4 n = normals(step->seed, step->frame, BIRTH_SEED_SPREAD, k);
    born->vx = (float)((real)velocity.x + spread * (real)n.x);
    born->vy = (float)((real)velocity.y + spread * (real)n.y);
}

// In proportion to the newborn mass: uniform in their cell, with the registered velocity, that of a moving neighbour or the
// prior's.
KERNEL give_birth(GLOBAL const Step *step, GLOBAL const SystematicDraw *draw, GLOBAL const units_t *reached,
                  GLOBAL const units_t *sums, GLOBAL const float *birth, GLOBAL const float *mass,
                  GLOBAL const float2 *mean, GLOBAL const int *label, GLOBAL const float2 *registered,
                  GLOBAL Particle *born, GLOBAL int *born_cells, int births) {
    GLOBAL const BirthRule *rule = &step->birth;
    int reach = 2 * rule->seed_cells + 1;
    FOR_EACH(k, births) {
        if (draw->total == 0) {
            born_cells[k] = step->size;
            continue;
        }
        int cell = covering(reached, sums, step->size, position_of(draw, k, births));
        int row = cell / step->columns, column = cell % step->columns;
        int born_in = draws_before(draw, births, reached_by(reached, sums, cell)) -
                      draws_before(draw, births, reached_by(reached, sums, cell - 1));
        float4 u = uniforms(step->seed, step->frame, BIRTH_PLACE, (uint)k);
        Particle p;
        p.x = (float)(((real)column + (real)u.x) * step->spacing);
        p.y = (float)(((real)row + (real)u.y) * step->spacing);
        prior_velocity(step, (uint)k, &p.vx, &p.vy);
        p.mass = (float)((real)birth[cell] / (real)born_in);
        p.tested = 0.0f;
        p.origin = -1;
        p.padding = 0;
        int component = label[cell];
        if (component >= 0 && (real)u.w < rule->registered && is_finite(registered[component].x)) {
            take_velocity(step, registered[component], rule->registered_spread, (uint)k, &p);
        } else if ((real)u.z < rule->seeded) {
            for (int attempt = 0; attempt < SEED_ATTEMPTS; ++attempt) {
                float4 chance = uniforms(step->seed, step->frame, BIRTH_SEED, (uint)(SEED_ATTEMPTS * k + attempt));
                int c = column + (int)((real)chance.x * (real)reach) - rule->seed_cells;
                int r = row + (int)((real)chance.y * (real)reach) - rule->seed_cells;
                if (c < 0 || c >= step->columns || r < 0 || r >= step->rows) continue;
                int other = r * step->columns + c;
                if (!((real)mass[other] > (real)SEED_MASS)) continue;
                take_velocity(step, mean[other], rule->seed_spread, (uint)k, &p);
                break;
            }
        }
        born[k] = p;
        born_cells[k] = cell;
    }
}

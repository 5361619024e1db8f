// 2/pairs times R_z, R_m or R_w of a row; padding rows have no sums.
#use sums

var<private> factor: f32;
var<private> which: u32;
var<private> sample_end: u32; // of the environment's samples within the span

fn choose_sum(here: Environment) {
    var ratio = 1.0;
    which = SUM_W;
    if (part == 1u) {
        which = SUM_Z;
        ratio = job.z_factor;
    }
    if (part == 2u) {
        which = SUM_M;
        ratio = job.m_factor;
    }
    factor = 2.0 * here.weight * ratio;
    sample_end = here.first_block * ROW_BLOCK + here.rows - job.first_block * ROW_BLOCK;
}

fn weighted_sum(row: u32, quad: u32) -> vec4<f32> {
    return select(vec4<f32>(0.0), factor * sum_of(row, which, quad), row < sample_end);
}

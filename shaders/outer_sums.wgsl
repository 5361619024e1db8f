// 2/pairs times R_z, R_m or R_w of a row; padding rows have no sums.
#use rows
#use sums

fn weighted_sum(row: u32, quad: u32) -> vec4<f32> {
    let block = block_of(row);
    if (!is_sample(row, block)) { return vec4<f32>(0.0); }
    let two = 2.0 * block.weight;
    if (part == 1u) { return two * job.z_factor * sum_of(row, SUM_Z, quad); }
    if (part == 2u) { return two * job.m_factor * sum_of(row, SUM_M, quad); }
    return two * sum_of(row, SUM_W, quad);
}

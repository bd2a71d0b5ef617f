//! Vectors of the format documents, produced by RocksDB itself.

use super::*;
use proptest::prelude::*;

const S: u64 = 0x9e37_79b9_7f4a_7c15;
const T: u64 = 0x1234_5678_9abc_def0;

/// The vectors' input: P[i] = 131 i + 7 mod 256.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (131 * i + 7) as u8).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

#[rustfmt::skip]
const SIGN_EXTENSION: &[(&str, u32, u32, u32, u64)] = &[
    ("62", 0xef13_45c4, 0x2329_1ba3, 0x9111_443e, 0x0199_d38c_4971_ad1d),
    ("c397", 0x0f2b_a540, 0xbcfe_8096, 0x2e1b_03e5, 0x9579_71c3_77db_1686),
    ("e299a5", 0x5301_74ee, 0xeb3f_1649, 0x7a22_937b, 0x2a25_02e5_6990_2509),
    ("e180b932", 0xed21_633a, 0x3fc8_54ce, 0xd1e0_9037, 0x1e76_9ae4_5257_a543),
    ("80", 0x91b7_55f4, 0xc5cd_2b7f, 0x33b5_54da, 0xe583_5ef6_5b4a_b985),
    ("ffffff", 0x581b_023c, 0xf058_a4b9, 0x7f3c_20d7, 0xf862_f39f_9e1f_1056),
    ("0180ff", 0x3642_64bc, 0xce80_06a1, 0x5d63_8293, 0x9569_a7dc_6267_7428),
    ("00000000008081", 0xa8c9_0a34, 0xa9de_88cf, 0x4003_7ae0, 0x4a2a_2532_aebd_d091),
];

#[rustfmt::skip]
const PATTERN: &[(usize, u32, u32, u64, u64, u64)] = &[
    (0, 0xbc9f_1d34, 0x0000_018d, 0x5342_c301_0fe1_dd04, 0xffdd_b7ee_647f_9cb2, 0x2d06_8005_38d3_94c2),
    (1, 0x528b_b3b8, 0x86a1_8ab9, 0xb71d_295c_7865_c7e9, 0xf516_6716_6d98_5c9b, 0x4c5c_ca45_d0f4_811f),
    (2, 0x7665_b12d, 0x2438_8c12, 0x7770_96a9_131e_825d, 0x5b7e_82ed_e0f4_98df, 0x29c6_0963_cbfa_4e6e),
    (3, 0x76b4_0f8a, 0x0ef1_b1ef, 0x8b93_d653_06b4_7960, 0x2059_f557_e1b3_5eca, 0x6e3e_2670_e611_06ac),
    (4, 0x96b2_0e5f, 0xe959_9c81, 0x640d_fa78_d960_2caa, 0xa71d_2c55_3fd8_773b, 0x5c4c_6313_3443_d03f),
    (5, 0xaa04_b758, 0x84f4_a720, 0x4076_04ac_2e18_c141, 0x58e1_6697_6186_7479, 0x49f5_eb31_1128_0b63),
    (6, 0x3864_687e, 0x277c_00e4, 0x703e_4047_7277_9cab, 0x9824_5799_c9f0_19b0, 0x7165_5f8c_ab99_dd4e),
    (7, 0x7977_02c3, 0x69a8_5ea3, 0x238a_8230_1009_f53f, 0x470c_328f_9ef4_f753, 0x46a5_c724_d51f_e43f),
    (8, 0x49d1_81ac, 0x52d9_ceff, 0xe02b_b026_0ca2_f426, 0xe2eb_c549_83fe_4a5e, 0xf9fd_4dd0_b04d_78f5),
    (9, 0xe93f_0431, 0xe5a7_2ab1, 0x82e2_7d91_ecbd_e0e3, 0x07d1_5b28_9596_1547, 0x7c20_df97_12c2_6edf),
    (10, 0x312b_e7ee, 0x2f38_e23d, 0x5525_652e_c3a3_ca8e, 0x2cd2_62d8_e0e3_58d0, 0x4726_1a89_ca37_d745),
    (12, 0x63d9_e9a8, 0xcf25_95ff, 0x649b_222e_add8_f8d3, 0x8405_d8a8_4cb5_7b7b, 0x16d2_dff5_4dc2_ee45),
    (15, 0xc516_2e68, 0xdc28_eb2b, 0x4274_2cff_0156_771e, 0x6443_ec92_b8f9_ccb3, 0xb345_a7b2_698b_a575),
    (16, 0x15e6_2df4, 0xfe89_49be, 0x808d_c7f6_a08e_1828, 0x0243_f0f4_1259_f5b1, 0x86ab_f6ba_ccea_0858),
    (17, 0x656a_f32f, 0x36a5_61b8, 0x6216_c07c_87bf_e5d1, 0x6552_5b19_6cbc_2d69, 0xb58b_f5dc_5022_d071),
    (20, 0x0581_b2c8, 0xf2a0_288b, 0x51a4_5bd1_f8b6_cb84, 0x59f0_d4bd_c332_785c, 0x67d4_5431_cec6_c464),
    (24, 0x5b61_4c43, 0x1aec_a8e3, 0x5ec1_9a87_c044_1e20, 0x491f_f46c_0dd1_ecd6, 0x08ce_26a7_964b_a200),
    (31, 0xa1da_4574, 0xa598_b6eb, 0xbd66_bc2d_a03a_2366, 0x2265_be34_c425_bcf4, 0x4844_2fcd_5518_b086),
    (32, 0x80ba_992c, 0xe80d_2848, 0xf1ba_ab98_5ecf_232e, 0x2fce_2568_d77c_db55, 0xe371_2ed8_4c04_a66e),
    (33, 0x9bb1_985e, 0x1f67_7dc8, 0x48c3_ee9b_e523_1873, 0x7f7c_1af0_e66b_ff2c, 0xa4de_e99b_093e_1f73),
    (48, 0x2b25_8805, 0x1757_572d, 0xf04f_1c0a_2e30_c839, 0x8522_b044_826d_6a04, 0xd8d1_caaa_06ae_1e99),
    (64, 0xd481_3abb, 0x487d_c970, 0xec97_64f4_fa25_86fd, 0x6aea_6add_b365_f611, 0x1291_d2d4_0423_30dd),
    (65, 0xefd8_a67c, 0x5c13_7c92, 0x0704_82c3_b1bc_6389, 0x4694_3ea5_ecdc_b088, 0x97c6_bf83_217e_5ec9),
    (80, 0x5714_6c80, 0x8434_6cfd, 0x4628_4b5c_724f_0d96, 0xad29_c427_5f81_b65e, 0xc50c_581c_f16b_1ed6),
    (96, 0x6c0c_d363, 0x69a5_2c6a, 0x8bf5_5ea9_f6da_04e5, 0x7b8d_d446_68e0_c228, 0x8129_6929_fc06_3365),
    (97, 0xb367_55ae, 0x1518_d662, 0x682d_0b1b_fce2_169d, 0x0ff6_5faa_39b7_c9ae, 0xf145_a45b_658a_b9dd),
    (127, 0xc2f2_8318, 0xbea9_0c21, 0x9570_9ca1_7c3e_6735, 0xe06e_e599_46fd_42e6, 0xed4c_f621_0402_0db5),
    (128, 0x792d_9747, 0x0f5e_3ee4, 0xb885_f0d2_6898_35e1, 0x1a09_ccce_590a_43a5, 0x10d1_7f72_c0cc_ba41),
    (129, 0x4c6e_afbf, 0x007a_f693, 0xfe14_6eb2_e99b_1a68, 0xdf73_82d0_7b85_cbc7, 0x1648_bdc3_db49_d1a2),
    (143, 0x2cc6_47cf, 0x8b0f_8d66, 0xf4e7_d67a_8adc_a6cf, 0x8c4b_f113_ecad_f038, 0xd05c_ed59_8f7f_87b3),
    (144, 0x4c76_b148, 0xf8d7_82ce, 0x9731_b6d8_c6e0_d8c3, 0x4308_ada0_ff41_3cd9, 0xb46d_bfc6_d9e3_1aba),
    (159, 0xbada_0106, 0x98eb_2cd4, 0x643b_208f_5c2b_0d88, 0x3177_335e_436e_9c84, 0xfc0b_ddaf_e0d5_ee0e),
    (160, 0x39b4_a182, 0xa02c_1d78, 0x090f_530b_a8a1_8786, 0x41da_bcd3_fdb9_7a64, 0x655c_8dc3_3b4b_4c4a),
    (192, 0x9cb8_0f77, 0x8ff5_eaa0, 0xbf7e_7e43_9e28_6e60, 0xd33b_46c9_6921_ff82, 0xdaf6_4f63_dc7d_5e36),
    (239, 0xc47d_814d, 0x7969_cae2, 0xc3ce_ce21_58c7_7b46, 0x0bfd_c2c9_58c8_4314, 0xf0d1_5481_9adb_16cd),
    (240, 0x76f2_1f7a, 0x8238_e42c, 0xddce_7abb_d046_abf1, 0xeb52_86ab_ef49_7761, 0xb6cf_af34_3fab_81e6),
    (241, 0x24bf_e8be, 0x9814_c75f, 0xb1e5_3475_de84_b071, 0xbc3d_e625_5609_72ae, 0x956c_ae59_2c67_279e),
    (255, 0xbe16_8056, 0xcb4f_7835, 0xdd49_cac5_ccf4_b3d0, 0xc472_1ab5_74ad_e7f2, 0x64a6_0730_25eb_7929),
    (256, 0x5590_8e90, 0x4f76_3dc7, 0xd4e2_1b1a_d9fa_d6c0, 0x1763_6d3f_d4c5_10a3, 0xb15e_5507_33c5_dfac),
    (257, 0xfaea_f0d8, 0x57e9_e836, 0x159b_eedf_4d69_fff8, 0xfd93_7d64_d953_e377, 0x87b3_bf2d_941c_f085),
    (288, 0x88c6_568e, 0x772a_3647, 0xa3c9_f354_fd4f_ff19, 0xa45c_ae62_a3e6_bb4d, 0xa92c_9a00_31cd_b113),
    (299, 0x21a9_1bcb, 0x5646_277a, 0x15fe_cd7a_3e1c_eac5, 0x400b_c5e3_fd9a_088f, 0xf7ff_6391_3add_3fbf),
    (300, 0x3603_d443, 0xa971_bfbb, 0x4577_6d4e_bfc6_1dc7, 0x1ba0_8442_dadc_3b79, 0xa4e6_9646_ccce_75ce),
    (512, 0xf3e3_db15, 0x1b9b_4f18, 0xe48d_39a8_e36d_4c18, 0x9a03_79a6_43b8_0f98, 0xa0e9_790e_b939_90d7),
    (1023, 0x81ad_e160, 0x4622_69bd, 0x8364_2416_1aee_f716, 0x76c2_5166_b4fb_8c32, 0xa94f_fcd2_2543_68e4),
    (1024, 0x9d5b_959c, 0x20ab_6364, 0x144a_a676_708d_a11c, 0x98b7_7a72_3f96_d951, 0x70bd_377d_9574_f4bb),
    (1025, 0x1f85_6ea7, 0xa445_bf41, 0x6210_58c4_914d_5089, 0xec3a_c9b7_56b4_c6d4, 0x66c4_487c_41e1_27a7),
    (1088, 0xa524_cc71, 0xecd9_4c87, 0x28c9_bdc5_8de0_42c5, 0x66db_dafe_d3cc_d000, 0xf43d_c77e_28a9_acbc),
    (1089, 0xfd84_5052, 0xdb60_2def, 0x8dd3_b547_7ccd_47cd, 0xc338_82db_234f_26c7, 0x313b_c7ee_32bb_fa2e),
    (2047, 0x6ec2_0c0f, 0x55c6_9730, 0xaa16_9b18_d0cd_31a1, 0x2320_8c5a_bec8_ab59, 0xded1_f434_a151_0c6a),
    (2048, 0x0386_82b0, 0xa32a_cc8b, 0xefa5_7a01_3282_3302, 0xb9e6_175b_026a_e158, 0x8b46_caa6_7dab_3a30),
    (2049, 0xd1ad_c62c, 0x8fb9_5c56, 0x5400_1413_6255_0599, 0xa432_6e4a_5477_b89f, 0x581c_d184_fd9b_76c5),
    (4096, 0x16e9_af9e, 0xfa11_be04, 0xe296_9cca_527e_6046, 0xe350_f2a2_cc3d_0024, 0x9ddd_66c1_4af0_daff),
    (5000, 0x5913_2eb0, 0x13f1_fc46, 0xae56_d4a9_c095_d7c2, 0xd342_1330_b93b_ad77, 0xe400_7929_540f_095c),
];

#[rustfmt::skip]
const PATTERN_OTHERS: &[(usize, u32, u64, u32, u64, u64)] = &[
    (0, 0x02cc_5d05, 0xef46_db37_51d8_e999, 0x0000_0000, 0x0000_0000_0000_0000, 0x765a_0209_bdce_32e7),
    (1, 0x002e_0d32, 0xa96c_7f0c_e858_bbb7, 0x86b7_37ba, 0x876d_6099_e0ce_f9cb, 0x15d8_2a41_7846_5730),
    (2, 0x0606_f454, 0xc22c_6a70_ad56_bba6, 0x6218_add7, 0x7b89_536e_c419_f54a, 0x34c7_b06a_0a03_f9dd),
    (3, 0x7d92_e8db, 0xbed4_3740_ee63_32bb, 0xea2e_826f, 0xe5a0_bd42_4efc_719f, 0x349b_7e59_53f8_981d),
    (4, 0xf189_ec97, 0xfa21_2ae4_4b3b_b23d, 0xffea_2e82, 0x118a_71e0_33e9_8680, 0x5f49_f1c2_bf2f_c59b),
    (5, 0x4400_af42, 0xd339_dcc9_ac8e_6776, 0x3241_c66b, 0x32bf_3e23_27c1_317a, 0x9abb_4d42_64c6_9c95),
    (7, 0x78c6_ca48, 0x2744_460d_d675_d2c0, 0xf807_8c71, 0x5df0_2f47_8aa5_8148, 0x066a_1a4d_3033_f427),
    (8, 0xc78a_a5cd, 0x994b_676b_71ce_94dd, 0x0e9d_b014, 0x8e0c_e157_9c4f_5baa, 0xa3b0_95b0_709a_67f9),
    (9, 0x0d33_d200, 0x572b_84c1_8b98_3af8, 0xcbfa_65da, 0xfbe8_312d_e0ed_89e6, 0x7717_9f08_180d_5a87),
    (12, 0x355b_ce76, 0xb92f_588c_e720_786e, 0x41bf_f713, 0xce77_bc88_f04a_e351, 0x3aad_7911_96ac_29e5),
    (15, 0x5705_5fe6, 0x09e6_451e_d2ff_8b1d, 0xa939_f375, 0xfa08_30c4_e7b2_27c3, 0x6ff8_5d73_dc68_a17a),
    (16, 0x6428_7c90, 0x94ad_0095_e72b_24d5, 0x6332_cf65, 0x05e7_5553_f0ce_3e92, 0x8896_9f07_8f48_a4b2),
    (17, 0x1c63_fdc5, 0x1464_f2ef_f23b_5fe1, 0xe200_cbba, 0x3e65_670c_38cd_a4d2, 0x665e_d63b_5d67_1b14),
    (31, 0x2ab3_eb71, 0x6711_d55e_306b_5d8f, 0x1b06_3d5a, 0xd7d9_d709_5427_d6da, 0x3860_135a_3061_41a2),
    (32, 0x1e1b_ff83, 0x07f7_b8e3_bc5d_6e25, 0x4c0b_9882, 0x99af_10ce_43da_9db8, 0x4afa_9aa1_7b38_00c8),
    (33, 0x2934_fd43, 0x09f8_5eeb_4e1c_be9f, 0x84f0_e4cf, 0x1791_9085_c47c_d8aa, 0xf8d8_5b84_042f_f9e6),
    (63, 0xff8f_debd, 0xb7c9_968c_066c_b6a5, 0x768e_33db, 0x9cb5_6c65_0594_f61d, 0x78cb_f7f3_84ba_eeb4),
    (64, 0xe009_2599, 0x50d4_159a_0411_632e, 0x9eb0_1d51, 0x5991_adee_d08a_7af5, 0x0a97_2a96_721d_1d3b),
    (65, 0x6f20_b0b5, 0xd277_176b_ff86_3efc, 0xe6ea_f8b3, 0x77db_9e52_5148_d265, 0xcac5_61f1_9c00_aa49),
    (96, 0xa865_ec18, 0x18c8_f362_eb73_5341, 0x0169_3014, 0x7d2e_4609_94c2_9f81, 0x9db8_95dd_b260_375b),
    (128, 0xe7f1_21da, 0x0430_e433_b792_e757, 0xaca1_0e82, 0x07d3_8482_3bd3_c804, 0x575c_96b3_3d37_5c6c),
    (240, 0x640e_7dfd, 0xca0b_65cc_6129_5ca7, 0x803d_e603, 0x1211_c014_e04c_3784, 0x4794_6e03_69ca_9b9e),
    (255, 0xbcd7_9661, 0x15a6_db05_d4e8_3df4, 0x1a77_6747, 0xb73e_78e4_bbce_eb98, 0x24d3_7532_27ae_e6b0),
    (256, 0xe25d_f102, 0xa2db_e913_9652_56fc, 0x82ba_f106, 0x6bd4_72c8_05d1_c29e, 0x5a8d_6534_f4f9_7aea),
    (300, 0x8813_03c3, 0xc68e_7ef3_9b5c_a10e, 0x297f_2e1b, 0x6d85_52af_0485_3eec, 0xd660_29d6_108f_13b9),
    (1024, 0xd383_ffc6, 0x5960_af0c_625a_cfb7, 0xf2f8_8dc3, 0xf3c8_a941_1311_2a32, 0x6639_bec6_7be8_ab01),
    (4096, 0xe4d2_9ca7, 0xcf05_adf7_5aca_30cf, 0xe6ad_c5b2, 0x4884_1a47_f34a_8ce4, 0xf684_d75f_438f_2638),
];

#[rustfmt::skip]
const XXH3_128: &[(usize, u64, u64, u64, u64)] = &[
    (0, 0x99aa_06d3_0147_98d8, 0x6001_c324_468d_497f, 0xe7da_0084_5366_b2f3, 0xb950_a1d9_e9a4_a947),
    (1, 0x495b_6207_3ef7_0ca4, 0x4c5c_ca45_d0f4_811f, 0x58c7_2234_726e_7398, 0xb0eb_ecf0_a0d6_af1c),
    (3, 0x390c_dc5b_4a89_5dd7, 0x6e3e_2670_e611_06ac, 0xac48_cf73_3dbe_88f0, 0xef52_9315_4b22_ce64),
    (4, 0xaa6e_2f27_4640_a3f4, 0x3d66_8af6_f2a4_4d77, 0xd136_7d73_3b45_e767, 0xcab3_f1ba_a139_7333),
    (8, 0x6a86_a3bd_a6af_4e3d, 0x61dd_be7f_31a6_100d, 0x7fb4_38af_b553_3768, 0x9fa2_61b6_a513_1770),
    (9, 0x664c_7ca1_8afd_6255, 0x8c7b_67fd_458a_936b, 0x4a75_ba94_da62_68d4, 0x183f_39df_cf44_3c48),
    (16, 0x7f9a_218b_0425_449a, 0xe2ce_54a7_c19c_730d, 0x426f_5bb8_48a8_ab3f, 0x99d1_0365_18b0_b8aa),
    (17, 0x66fc_23f6_439d_bd77, 0x8d96_ef11_0fcd_ebb4, 0x4e48_635d_cb85_a679, 0x0bac_e059_85c3_574b),
    (20, 0xfb85_40de_322a_63f1, 0x3321_087e_a286_6864, 0x384d_ad83_383b_a764, 0xa926_3ebd_d310_5d9f),
    (32, 0x49a1_1ee7_43d6_d342, 0xfd35_7cf6_cb2d_da18, 0xec80_188b_94e9_0a01, 0x3bad_e05b_c9d6_8a3c),
    (33, 0x7228_d928_4a81_16f6, 0xf899_4653_f4bf_e6da, 0x5509_a8e9_a566_1d56, 0xa6ab_6e92_1641_123f),
    (64, 0xe0fa_f20e_0e0f_e0dd, 0xba7e_015a_54f1_4be1, 0xc27e_bf07_6276_a617, 0x4fed_49ab_2fba_7b0f),
    (65, 0x9397_df27_b7a9_8713, 0x8532_6f40_78a6_1329, 0x70c3_1c37_fe8e_144e, 0x0b5f_a4c0_ef0a_6329),
    (96, 0xfb78_ac18_5ef5_5443, 0x8b87_20f5_65dc_f40c, 0x2d53_2fc8_66b6_1920, 0xfa8c_aee0_0f9a_eb6f),
    (97, 0x9cfc_8c7d_6e78_15c8, 0xbb38_5623_e598_c6d4, 0x21e9_1fce_1a3f_c580, 0xa221_1fc9_b76d_ac66),
    (128, 0xaec7_3075_1478_556c, 0xff36_1dec_1385_710a, 0x9218_bd3c_c93e_565e, 0xdad3_a705_e953_c5f3),
    (129, 0x98cd_36cc_bb55_7926, 0x4545_b3a0_9738_e31a, 0x6730_4378_1d88_f88f, 0xf94e_5cc0_a1fe_a8dd),
    (160, 0x832a_f93a_cbf1_4d0b, 0x1096_3bc4_f63e_0de8, 0x62a7_c179_921f_ebd9, 0x510d_39cc_2cc0_3f36),
    (192, 0xe9e3_bb05_b10d_f5c4, 0x4079_b989_e727_fb44, 0xf20d_05fb_e368_4c35, 0x07aa_67c3_dafa_8081),
    (240, 0x5293_e17b_f553_903d, 0x3f2c_53e7_2293_711f, 0x9bdc_9cf1_9e58_b2ed, 0x713c_eb44_c102_1de9),
    (241, 0xb538_40fe_3fed_f161, 0x956c_ae59_2c67_279e, 0x4fd7_04b2_b213_87bc, 0xc31f_5e92_2a74_756b),
    (512, 0x7509_d702_d451_9576, 0xa0e9_790e_b939_90d7, 0x510d_1832_db6f_23f1, 0x2903_5789_9918_6e66),
    (1024, 0xf696_3061_3f24_324d, 0x70bd_377d_9574_f4bb, 0x7ff5_8aab_5a92_1686, 0x5d2e_81a9_7057_0236),
    (1025, 0x621a_f7b8_277e_ffa4, 0x66c4_487c_41e1_27a7, 0xa466_fae1_0281_03d8, 0xa0ca_e2b5_7883_0e7d),
    (4096, 0x3e0f_f38f_a88a_55ea, 0x9ddd_66c1_4af0_daff, 0x05f9_9ae8_b424_0c85, 0x0baf_4fa6_a157_0991),
];

#[rustfmt::skip]
const KEYS: &[(&str, u32, u32, u32, u64, u64)] = &[
    ("", 0xbc9f_1d34, 0x0000_018d, 0x0000_0000, 0x5342_c301_0fe1_dd04, 0x0000_0000_0000_0000),
    ("a", 0x286e_9db0, 0x5c84_73b1, 0xc1d0_4330, 0x88d8_68bf_6076_81c7, 0x0717_17d2_d36b_6b11),
    ("ab", 0x39ac_a330, 0xe77f_7d03, 0xe2a2_2936, 0x885d_dfe7_af63_10e5, 0x62be_85b2_fe53_d1f8),
    ("abc", 0x855d_012f, 0x1d9a_a392, 0x364b_3fb7, 0xd39e_eb71_bb53_42e8, 0x9cc9_c334_98a9_5efb),
    ("foo", 0x9dfa_be14, 0x3638_6058, 0xcfc4_ae1d, 0x2540_784d_970d_de34, 0xcdde_3835_8fd2_5b01),
    ("hello", 0xf795_964e, 0xbe00_6c87, 0x9a71_bb4c, 0xa0bb_c238_c976_57b5, 0x1e68_d17c_457b_f117),
    ("key00000000", 0x41ae_2350, 0xd322_24e7, 0x9d30_1350, 0x70a1_9ea5_1310_85ec, 0x31cf_b4c5_c394_4aa7),
    ("rocksdb", 0xe2cb_a4dd, 0x0700_136e, 0xa359_4b8d, 0xceb9_0cc7_1647_39b8, 0x7aac_ec7a_c702_230e),
    ("The quick brown fox jumps over the lazy dog", 0x7e36_fe57, 0xb9b9_12e7, 0x2262_0404, 0x7a13_31a5_f5e1_9b65, 0x5589_ca33_042a_861b),
];

#[rustfmt::skip]
const MURMUR_SEEDS: &[(&str, [u64; 5])] = &[
    ("key00000000", [0x31cf_b4c5_c394_4aa7, 0x7583_dbc4_72d5_d3b7, 0xa1c9_8265_fd8f_8f79, 0xd4c7_7894_e234_7c59, 0x9a28_6d3f_73f6_daee]),
    ("key00000001", [0x2a4b_0be0_ab0a_0849, 0x5d2a_47a4_e919_9969, 0x97fc_a8ec_37a1_3e81, 0x3483_498f_e0df_998c, 0x5c29_3308_c80a_1ec9]),
    ("abcdefgh", [0xafdb_0257_ff41_aa98, 0x9318_53cf_7ca9_9351, 0x247c_ee7f_7f9a_c8d5, 0x5673_3dac_491a_13bb, 0xb660_a74c_13ae_10de]),
];

#[rustfmt::skip]
const BIJECTIVE: &[(u64, u64, u64, u64, u64, u64)] = &[
    (0x0000_0000_0000_0000, 0x0000_0000_0000_0000, 0xe518_9a95_99e3_f862, 0x05ea_23ef_06e2_8b2d, 0xd567_2f6f_c61f_b73b, 0xae9a_66d6_e734_9024),
    (0x0000_0000_0000_0001, 0x0000_0000_0000_0002, 0x18bb_58e6_87c7_2283, 0x0d9b_5ffa_5193_bb7f, 0xd17c_830d_4eec_3fa3, 0xc538_e5de_df6d_d2e4),
    (0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff, 0x2c75_c396_ceb7_747b, 0xe687_3ce6_5343_027f, 0x37a3_e1ae_8ada_91e0, 0x980a_75e4_08c1_ae9b),
    (0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 0xd4cc_fe0b_d485_ffd4, 0xef84_a4e5_f6f9_2607, 0x9b3e_8449_c642_e3b5, 0xc123_ed64_cbc8_a9a0),
];

#[test]
fn pattern_starts_as_documented() {
    assert_eq!(pattern(8), unhex("078a0d901396199c"));
}

#[test]
fn legacy_and_preview_hashes() {
    for &(hex, bloom, slice, zero, preview) in SIGN_EXTENSION {
        let data = unhex(hex);
        assert_eq!((bloom_hash(&data), slice_hash(&data), hash32(&data, 0)), (bloom, slice, zero), "{hex}");
        assert_eq!(xxph3_64(&data), preview, "{hex}");
    }
    for &(n, bloom, slice, preview, preview_seeded, released) in PATTERN {
        let data = pattern(n);
        assert_eq!((bloom_hash(&data), slice_hash(&data)), (bloom, slice), "{n}");
        assert_eq!((xxph3_64(&data), xxph3_64_with_seed(&data, S)), (preview, preview_seeded), "{n}");
        assert_eq!(xxh3_64(&data), released, "{n}");
    }
}

#[test]
fn xxhash_crc_and_murmur() {
    for &(n, xxh32, xxh64, crc, murmur, murmur_seeded) in PATTERN_OTHERS {
        let data = pattern(n);
        assert_eq!(xxhash_rust::xxh32::xxh32(&data, 0), xxh32, "{n}");
        assert_eq!(xxhash_rust::xxh64::xxh64(&data, 0), xxh64, "{n}");
        assert_eq!(crc32c::crc32c(&data), crc, "{n}");
        assert_eq!((murmur64a(&data, 0), murmur64a(&data, 816_922_183)), (murmur, murmur_seeded), "{n}");
    }
    for &(key, bloom, slice, crc, preview, murmur) in KEYS {
        let data = key.as_bytes();
        assert_eq!((bloom_hash(data), slice_hash(data), crc32c::crc32c(data)), (bloom, slice, crc), "{key}");
        assert_eq!((xxph3_64(data), murmur64a(data, 0)), (preview, murmur), "{key}");
    }
    for (key, expected) in MURMUR_SEEDS {
        for (i, hash) in [0u32, 1, 2, 3, 6].into_iter().zip(expected) {
            assert_eq!(murmur64a(key.as_bytes(), 816_922_183u32.wrapping_mul(i)), *hash, "{key} {i}");
        }
    }
}

#[test]
fn released_128() {
    for &(n, high, low, high_seeded, low_seeded) in XXH3_128 {
        let data = pattern(n);
        assert_eq!((xxh3_128(&data, 0), xxh3_128(&data, T)), ((high, low), (high_seeded, low_seeded)), "{n}");
    }
}

#[test]
fn bijective() {
    for &(high, low, out_high, out_low, seeded_high, seeded_low) in BIJECTIVE {
        assert_eq!(bijective_hash_2x64(high, low, 0), (out_high, out_low));
        assert_eq!(bijective_hash_2x64(high, low, T), (seeded_high, seeded_low));
        assert_eq!(bijective_unhash_2x64(out_high, out_low, 0), (high, low));
        assert_eq!(bijective_unhash_2x64(seeded_high, seeded_low, T), (high, low));
    }
}

#[test]
fn range_reduction() {
    assert_eq!(fast_range32(0x1310_85ec, 2), 0);
    assert_eq!(fast_range32(0xffff_ffff, 7), 6);
    assert_eq!(fast_range32(0x8000_0000, 3), 1);
    assert_eq!(fast_range64(0x8000_0000_0000_0000, 129), 64);
    assert_eq!(fast_range64(0x35ac_572e_02b1_99d4, 129), 27);
}

proptest! {
    #[test]
    fn bijective_hash_inverts(high: u64, low: u64, seed: u64) {
        let (h, l) = bijective_hash_2x64(high, low, seed);
        prop_assert_eq!(bijective_unhash_2x64(h, l, seed), (high, low));
    }

    #[test]
    fn every_length_class_hashes_without_panic(data in proptest::collection::vec(any::<u8>(), 0..2500), seed: u64) {
        let _ = (xxph3_64_with_seed(&data, seed), hash32(&data, seed as u32), murmur64a(&data, seed as u32));
    }
}

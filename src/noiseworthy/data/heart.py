"""Heart disease: are the coronary vessels of a patient narrowed? Thirteen findings from four hospitals."""

from dataclasses import replace
from pathlib import Path

from noiseworthy.data.records import Records
from noiseworthy.data.schema import read_schema
from noiseworthy.data.table_records import read_table

COLUMNS = Path(__file__).with_name("heart.toml")


def heart_disease(data_dir: Path) -> Records:
    """Heart Disease (UCI): 920 patients of four hospitals as 25 numbers, a fifth of each hospital to test.

    Class 1 has a vessel narrowed by half or more (num above 0). Columns are encoded as `heart.toml` beside
    this file says, which reads no patient. The owner of a record is its hospital; their shares of class 1 run
    from 0.36 to 0.93, and three of them left most findings of fluoroscopy and thallium scans out.

    Args:
        data_dir: holds heart-disease/heart_disease_4sites.csv.gz.

    Returns:
        Records with x (735, 25) and 185 test records; the share of class 1 is 0.55.

    Raises:
        DataError: the file is missing or damaged, or holds a value that the code book lacks.

    Source: Janosi, Steinbrunn, Pfisterer, Detrano (1989), "Heart Disease", UCI Machine Learning Repository,
        CC BY 4.0.
    """
    path = data_dir / "heart-disease" / "heart_disease_4sites.csv.gz"
    return replace(read_table(path, read_schema(str(COLUMNS))), name="heart-disease")
